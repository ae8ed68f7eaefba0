package kit

import (
	"strings"

	"github.com/a-h/templ"
)

// LiveAttrs returns attributes that make an element follow wake-up keys. The element reloads href on the given trigger,
// and when a key changes (static/js/live.js triggers it). swap is the htmx swap style for the response:
// "morph:innerHTML", "morph:outerHTML".
func LiveAttrs(keys, href, trigger, swap string) templ.Attributes {
	out := templ.Attributes{"data-live": keys, "hx-get": href, "hx-trigger": trigger, "hx-swap": swap}
	if strings.HasPrefix(swap, "morph:") {
		out["hx-ext"] = "morph"
	}
	return out
}
