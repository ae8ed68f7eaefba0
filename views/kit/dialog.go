package kit

import "github.com/a-h/templ"

// Dialog is the content of the shared dialog, or of a page without JavaScript: a form with a title and two buttons.
type Dialog struct {
	Title, Action, Button string
	ButtonContent         templ.Component // content of the button instead of Button, where it depends on the form's values
	Danger                bool
	Why                   string // why the button is disabled; empty: the button is enabled
	Back                  string // target of Cancel when the dialog is a page
	Help                  Topic
}

func (d Dialog) tone() string {
	if d.Danger {
		return "danger"
	}
	return "primary"
}

// enterLabel is the label for HiddenDefaultButton in the dialog's form: the button's, or none while the button is
// disabled.
func (d Dialog) enterLabel() string {
	if d.Why != "" {
		return ""
	}
	return d.Button
}

// ReasonOf is the reason part of an (allowed, reason) result.
func ReasonOf(_ bool, reason string) string { return reason }
