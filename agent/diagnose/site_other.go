//go:build !linux

package diagnose

// Site is the directory of the site's own diagnostics, which only Linux hosts have.
type Site struct{ Dir string }

// Names returns none.
func (Site) Names() []string { return nil }

// Items returns none.
func (Site) Items([]string) []Item { return nil }
