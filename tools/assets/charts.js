// The parts of ECharts that the console draws with; esbuild makes static/echarts.js of them.
import { init, use } from "echarts/core";
import { LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TooltipComponent } from "echarts/components";
import { CanvasRenderer } from "echarts/renderers";

use([LineChart, GridComponent, LegendComponent, TooltipComponent, CanvasRenderer]);

window.echarts = { init };
