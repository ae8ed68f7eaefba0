package kit

// Option is one option of a select.
type Option struct{ Value, Text string }

// SizeUnits are the units of a size field.
var SizeUnits = []Option{{Value: "GiB", Text: "GiB"}, {Value: "MiB", Text: "MiB"}}

// SelectChoices are the options of a select. If there are too many, Options holds only the first ones, Search is the
// address of a text search and All the address of a page with all options.
type SelectChoices struct {
	Options     []Option
	Search, All string // addresses; empty: Options is complete
}

// OptionText is the text of the option with the given value. Without such an option, it is the value.
func OptionText(options []Option, value string) string {
	for _, o := range options {
		if o.Value == value {
			return o.Text
		}
	}
	return value
}
