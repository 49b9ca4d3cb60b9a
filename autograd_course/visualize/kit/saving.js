// A saved notebook contains only a widget's picture. The class Saved in live.py explains why.

const VIEW = "application/vnd.jupyter.widget-view+json";
const WATCHED = Symbol.for("autograd_course.watched"); // shared by all widgets, so that only one patches the notebook

/** Make JupyterLab save the widget's notebook without live views, and restore the views whose widgets the
    kernel still has. The widget does not wait for this. In other front ends, this does nothing. */
export function initialize({ model }) {
  const manager = model.widget_manager, context = manager?.context;
  if (!context?.model?.toJSON) return;
  context.ready.then(() => {
    withoutViews(context.model);
    revive(context.model, manager);
  });
}

/** Make a notebook leave out its live views when it is saved. They remain on the page. */
function withoutViews(notebook) {
  if (notebook[WATCHED]) return;
  notebook[WATCHED] = true;
  const whole = notebook.toJSON.bind(notebook);
  notebook.toJSON = () => {
    const saved = whole();
    return { ...saved, cells: saved.cells.map((cell) => (cell.outputs ? { ...cell, outputs: cell.outputs.map(pictured) } : cell)) };
  };
}

/** Remove the live view from an output of the course. The view's id remains in the metadata. */
function pictured(output) {
  if (!output.metadata?.[VIEW]?.model_id || !output.data?.[VIEW]) return output;
  const { [VIEW]: _, ...data } = output.data;
  return { ...output, data };
}

/** In a reopened notebook, show a live view again if the kernel still has its widget. */
function revive(notebook, manager) {
  const { dirty } = notebook;
  for (const { outputs } of notebook.cells) {
    for (let i = 0; i < (outputs?.length ?? 0); i++) {
      const output = outputs.get(i).toJSON(), view = output.metadata?.[VIEW];
      if (!view?.model_id || output.data[VIEW] || !manager.has_model?.(view.model_id)) continue;
      outputs.set(i, { ...output, data: { ...output.data, [VIEW]: view } });
    }
  }
  notebook.dirty = dirty; // the saved file would be the same
}
