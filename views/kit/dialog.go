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

func (d Dialog) buttonClass() string {
	if d.Danger {
		return "danger"
	}
	return "primary"
}

// DefaultButtonLabel is the word for the HiddenDefaultButton of the dialog's form. It is empty while the button is disabled, so
// that Enter does nothing.
func (d Dialog) DefaultButtonLabel() string {
	if d.Why != "" {
		return ""
	}
	return d.Button
}

// RefusalReason returns the reason from a result of two values, whether an action is allowed and the reason if not.
func RefusalReason(_ bool, reason string) string { return reason }
