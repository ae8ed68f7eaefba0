package kit

// Option is one option of a select.
type Option struct{ Value, Text string }

// Choices are the options of a select: all options, or the first ones with the addresses that search and list all.
type Choices struct {
	Options     []Option
	Search, All string // addresses; empty: the options are complete
}

// OptionText is the text of the option with the value; the value itself if no option has it.
func OptionText(options []Option, value string) string {
	for _, o := range options {
		if o.Value == value {
			return o.Text
		}
	}
	return value
}
