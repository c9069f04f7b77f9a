// The console's own script: the theme, dialogs, and figures that follow. Pages work without it.
"use strict";

(() => {
  const root = document.documentElement;
  const COOKIE = "postroom-theme";
  const RETRY_MS = 2000;

  // The theme: as the system has it, light or dark.

  function theme() {
    return root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  function prepareTheme() {
    const button = document.getElementById("theme");
    if (!button) return;
    const label = () => { button.textContent = theme() === "dark" ? "Light" : "Dark"; };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      root.dataset.theme = theme() === "dark" ? "light" : "dark";
      document.cookie = `${COOKIE}=${root.dataset.theme}; Path=/; Max-Age=31536000; SameSite=Strict`;
      label();
      document.dispatchEvent(new Event("postroom:theme"));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      label();
      document.dispatchEvent(new Event("postroom:theme"));
    });
  }

  // Dialogs: htmx puts an action's form into the one of the page.

  function prepareDialog() {
    const dialog = document.getElementById("dialog");
    if (!dialog) return;
    document.body.addEventListener("htmx:afterSwap", (event) => {
      if (event.detail.target === dialog && !dialog.open) dialog.showModal();
    });
    dialog.addEventListener("click", (event) => {
      const closes = event.target === dialog || event.target.closest("[data-close]");
      if (closes) { event.preventDefault(); dialog.close(); }
    });
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      if (event.detail.xhr.getResponseHeader("content-type")?.startsWith("text/html")) event.detail.shouldSwap = true;
    });
    document.body.addEventListener("htmx:sendError", () => away("The broker doesn't answer. Trying again…"));
  }

  // A form is sent once.

  function prepareForms() {
    document.addEventListener("submit", (event) => {
      if (event.target.method !== "post") return;
      if (event.target.dataset.sent) event.preventDefault();
      event.target.dataset.sent = "yes";
    });
    addEventListener("pageshow", () => {
      for (const form of document.forms) delete form.dataset.sent;
    });
  }

  // Figures that follow.

  function away(text) {
    const banner = document.getElementById("away");
    if (!banner) return;
    banner.hidden = !text;
    banner.textContent = text;
    document.body.classList.toggle("stale", Boolean(text));
  }

  function putParts(parts) {
    for (const [id, html] of Object.entries(parts)) {
      const element = document.getElementById(id);
      if (!element || element.contains(document.activeElement)) continue;
      element.innerHTML = html;
      if (window.htmx) window.htmx.process(element);
    }
  }

  class Live {
    constructor(path) {
      this.path = path;
      this.open();
      addEventListener("pagehide", () => this.close());
      addEventListener("pageshow", (event) => { if (event.persisted) this.open(); });
      document.addEventListener("visibilitychange", () => {
        if (document.hidden) this.close(); else if (!this.source) this.open();
      });
    }

    open() {
      this.close();
      this.source = new EventSource(this.path);
      this.source.addEventListener("parts", (event) => { this.tried = false; away(""); putParts(JSON.parse(event.data)); });
      this.source.addEventListener("samples", (event) => {
        document.dispatchEvent(new CustomEvent("postroom:samples", { detail: JSON.parse(event.data) }));
      });
      this.source.addEventListener("signed-out", () => location.reload());
      this.source.addEventListener("refused", (event) => {
        const { status, what } = JSON.parse(event.data);
        away(what);
        if (status < 429) this.close();
      });
      this.source.addEventListener("error", () => { this.close(); this.retry(); });
    }

    close() {
      if (this.source) this.source.close();
      this.source = null;
      clearTimeout(this.timer);
    }

    // The stream has ended: because the broker stops, or the session does, or its time was over.
    retry() {
      this.timer = setTimeout(async () => {
        try {
          const answer = await fetch(location.href, { method: "HEAD", redirect: "manual", cache: "no-store" });
          if (answer.type === "opaqueredirect") location.reload(); // to sign in
          else if (answer.ok) this.open();
          else if (answer.status < 500 && answer.status !== 429) away("This page is no longer there.");
          else throw new Error(String(answer.status));
        } catch {
          away("The broker doesn't answer. Trying again…");
          this.retry();
        }
      }, this.tried ? RETRY_MS : 0);
      this.tried = true;
    }
  }

  prepareTheme();
  prepareDialog();
  prepareForms();
  const main = document.getElementById("main");
  if (main && main.dataset.live) new Live(main.dataset.live);
})();
