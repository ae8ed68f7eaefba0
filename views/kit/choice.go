package kit

// Option is one option of a select.
type Option struct{ Value, Text string }

// SelectChoices are the options of a select. If there are too many, Options holds the first ones, and Search and All
// are addresses.
type SelectChoices struct {
	Options     []Option
	Search, All string // addresses that search all options and list them; empty: Options is complete
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
