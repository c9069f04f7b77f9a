#!/usr/bin/env bash
# Makes the console's files that come from npm:  tools/assets.sh [FOLDER]
# Without FOLDER they go where they are committed, src/postroom/server/console/static. The versions are those of
# tools/assets/package-lock.json. `tools/assets.sh --install` only fetches the packages: the tests need axe-core.
set -euo pipefail
cd "$(dirname "$0")/assets"

[ -e node_modules/.package-lock.json ] && [ node_modules/.package-lock.json -nt package-lock.json ] \
  || npm ci --silent --no-audit --no-fund
[ "${1:-}" != --install ] || exit 0

folder=${1:-../../src/postroom/server/console/static}
mkdir -p "$folder"
npx --no-install esbuild charts.js --bundle --minify --format=iife --target=es2020 --legal-comments=none \
  --log-level=warning --outfile="$folder/echarts.js"
cp node_modules/htmx.org/dist/htmx.min.js "$folder/htmx.js"
cp node_modules/echarts/LICENSE "$folder/echarts.LICENSE.txt"
cat node_modules/echarts/NOTICE node_modules/zrender/LICENSE > "$folder/echarts.NOTICE.txt"
cp node_modules/htmx.org/LICENSE "$folder/htmx.LICENSE.txt"
