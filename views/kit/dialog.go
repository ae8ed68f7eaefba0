package kit

import "github.com/a-h/templ"

// Dialog is the content of the shared dialog, or of a page without scripts: a form with a title and two buttons.
type Dialog struct {
	Title, Action, Button string
	Face                  templ.Component // of the button, instead of its word, where that follows what is chosen
	Danger                bool
	Why                   string // why the button does nothing now; empty: it does
	Back                  string // where Cancel leads when the dialog is a page
	Help                  Topic
}

func (d Dialog) tone() string {
	if d.Danger {
		return "danger"
	}
	return "primary"
}

// onEnter is the word of EnterPresses in the dialog's form: its button's, or none while that does nothing.
func (d Dialog) onEnter() string {
	if d.Why != "" {
		return ""
	}
	return d.Button
}

// WhyNot is the reason of what a noun's table allows or not.
func WhyNot(_ bool, reason string) string { return reason }
