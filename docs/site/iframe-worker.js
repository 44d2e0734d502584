// The site's search runs in a worker, which browsers refuse to a page that was opened as a file. There the
// worker's script runs in a hidden frame of the page instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "";
      this.started = new Promise((resolve) => {
        frame.onload = () => {
          const inner = frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
          const element = inner.document.createElement("script");
          element.src = script;
          element.onload = () => resolve(inner);
          inner.document.head.append(element);
        };
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.started.then((inner) => inner.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
