package kit

import "github.com/a-h/templ"

// PostFormAttrs returns the attributes of a form that is sent to path. With JavaScript, the response replaces the element
// target; swap is the htmx swap style. Without JavaScript, the response is the next page. With an empty target, the
// response is ignored and the live page updates itself.
func PostFormAttrs(path, target, swap string) templ.OrderedAttributes {
	out := templ.OrderedAttributes{{Key: "method", Value: "post"}, {Key: "action", Value: path}, {Key: "hx-post", Value: path}}
	if target != "" {
		out = append(out, templ.KeyValue[string, any]{Key: "hx-target", Value: target})
	}
	return append(out, templ.KeyValue[string, any]{Key: "hx-swap", Value: swap})
}
