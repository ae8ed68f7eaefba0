package kit

// Option is one choice of a select.
type Option struct{ Value, Text string }

// Choices are the options of a select: all there are, or the first of them and where to search and to see all.
type Choices struct {
	Options     []Option
	Search, All string // addresses; empty: these are all
}

// OptionText is the text of the option with that value; of one that there is not, the value.
func OptionText(options []Option, value string) string {
	for _, o := range options {
		if o.Value == value {
			return o.Text
		}
	}
	return value
}
