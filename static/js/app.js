// Entry point of every page. Each imported module has one purpose and finds its own elements.
import "./morph.js";
import "./portal.js"; // before the modules that handle clicks and forms
import "./live.js";
import "./age.js";
import "./toast.js";
import "./submit.js";
import "./menu.js";
import "./tip.js";
import "./context.js";
import "./dialog.js";
import "./confirm.js";
import "./form.js";
import "./tree.js";
import "./list.js";
import "./tabs.js";
import "./search.js";
import "./copy.js";
import "./appearance.js";
import "./keys.js";
