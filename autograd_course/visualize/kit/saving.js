// What the saved notebook keeps of a widget: its picture. Saved in live.py says why.

const VIEW = "application/vnd.jupyter.widget-view+json";
const WATCHED = Symbol.for("autograd_course.watched"); // each widget brings this code; one is enough

/** From a widget's first moment on, save its notebook without live views, and put back those that
    the kernel still serves. Nothing waits for this, and only JupyterLab has a notebook to tell. */
export function initialize({ model }) {
  const manager = model.widget_manager, context = manager?.context;
  if (!context?.model?.toJSON) return;
  context.ready.then(() => {
    withoutViews(context.model);
    revive(context.model, manager);
  });
}

/** Leave the live views out of what is saved; the page keeps them. */
function withoutViews(notebook) {
  if (notebook[WATCHED]) return;
  notebook[WATCHED] = true;
  const whole = notebook.toJSON.bind(notebook);
  notebook.toJSON = () => {
    const saved = whole();
    return { ...saved, cells: saved.cells.map((cell) => (cell.outputs ? { ...cell, outputs: cell.outputs.map(pictured) } : cell)) };
  };
}

/** Take the live view out of an output of the course: its address is in the metadata, too. */
function pictured(output) {
  if (!output.metadata?.[VIEW]?.model_id || !output.data?.[VIEW]) return output;
  const { [VIEW]: _, ...data } = output.data;
  return { ...output, data };
}

/** Show the live view again where the kernel still has its widget: the notebook was reopened. */
function revive(notebook, manager) {
  const { dirty } = notebook;
  for (const { outputs } of notebook.cells) {
    for (let i = 0; i < (outputs?.length ?? 0); i++) {
      const output = outputs.get(i).toJSON(), view = output.metadata?.[VIEW];
      if (!view?.model_id || output.data[VIEW] || !manager.has_model?.(view.model_id)) continue;
      outputs.set(i, { ...output, data: { ...output.data, [VIEW]: view } });
    }
  }
  notebook.dirty = dirty; // what would be saved is what was saved
}
