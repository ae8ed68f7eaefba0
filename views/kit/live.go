package kit

import (
	"strings"

	"github.com/a-h/templ"
)

// Follow is what makes an element follow its keys: it asks href for itself when one of them changes (static/js/live.js pokes it), and
// by whatever else the trigger names. swap says what of it the answer replaces: "morph:innerHTML", "morph:outerHTML".
func Follow(keys, href, trigger, swap string) templ.Attributes {
	out := templ.Attributes{"data-live": keys, "hx-get": href, "hx-trigger": trigger, "hx-swap": swap}
	if strings.HasPrefix(swap, "morph:") {
		out["hx-ext"] = "morph"
	}
	return out
}
