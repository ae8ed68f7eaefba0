package kit

// Option is one choice of a select.
type Option struct{ Value, Text string }

// Choices are the options of a select: all there are, or the first of them and where to search and to see all.
type Choices struct {
	Options     []Option
	Search, All string // addresses; empty: these are all
}
