package kit

// Dialog is the content of the shared dialog, or of a page without scripts: a form with a title and two buttons.
type Dialog struct {
	Title, Action, Button string
	Danger                bool
	Back                  string // where Cancel leads when the dialog is a page
}
