package kit

// Crumb is one step of the way to a page.
type Crumb struct{ Text, Href string }

// Named is a thing's name and its page.
type Named struct{ Name, Href string }
