package kit

import "github.com/a-h/templ"

// Post makes a form send itself to the path: with scripts the answer takes the target's place as swap says, without them it is the next
// page. An empty target: the answer goes nowhere, and the page follows by itself.
func Post(path, target, swap string) templ.OrderedAttributes {
	out := templ.OrderedAttributes{{Key: "method", Value: "post"}, {Key: "action", Value: path}, {Key: "hx-post", Value: path}}
	if target != "" {
		out = append(out, templ.KeyValue[string, any]{Key: "hx-target", Value: target})
	}
	return append(out, templ.KeyValue[string, any]{Key: "hx-swap", Value: swap})
}
