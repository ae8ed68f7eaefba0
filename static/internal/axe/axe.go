// Package axe holds axe-core, the accessibility checker that the browser tests run on every page.
package axe

import _ "embed"

//go:embed axe.min.js
var source string

// Source is the script to evaluate in a page; it defines window.axe.
func Source() string { return source }
