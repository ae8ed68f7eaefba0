package mock

import (
	"fmt"
	"strings"
	"sync"
)

// These are the columns and rows of a screen, in characters.
const (
	columns = 80
	rows    = 25
)

// textScreen is a guest's text screen. Keys typed at any console of the guest appear on the screen.
type textScreen struct {
	mu      sync.Mutex
	name    string
	banner  []string
	lines   []string // the last line is still being written
	version int
	changed chan struct{} // closed and replaced with each change
	ended   bool
}

func newScreen(name string, s guestDefinition) *textScreen {
	scr := &textScreen{name: name, changed: make(chan struct{}), banner: []string{
		"Quantix simulated machine", "",
		fmt.Sprintf("  name    %s", name), fmt.Sprintf("  vCPUs   %d", s.spec.CPUs), fmt.Sprintf("  memory  %d MiB", s.spec.MemoryMiB), "",
		"No guest runs here: this screen only echoes what you type.", "",
	}}
	scr.showInitialText()
	return scr
}

// prompt returns the prefix of an input line.
func (s *textScreen) prompt() string { return s.name + "$ " }

// showInitialText shows the initial screen again.
func (s *textScreen) showInitialText() {
	s.change(func() { s.lines = append(append([]string{}, s.banner...), s.prompt()) })
}

// end ends the screen and disconnects all viewers.
func (s *textScreen) end() { s.change(func() { s.ended = true }) }

// These are the keysyms of keys that print no character.
const (
	keyBackspace = 0xff08
	keyEnter     = 0xff0d
	keyKPEnter   = 0xff8d
)

// typeKey handles one key press, as an X11 keysym.
func (s *textScreen) typeKey(sym uint32) {
	s.change(func() {
		last := &s.lines[len(s.lines)-1]
		switch {
		case sym == keyEnter || sym == keyKPEnter:
			s.lines = append(s.lines, s.prompt())
			s.lines = s.lines[max(0, len(s.lines)-rows):]
		case sym == keyBackspace && len(*last) > len(s.prompt()):
			*last = (*last)[:len(*last)-1]
		case sym >= ' ' && sym <= '~' && len(*last) < columns-1:
			*last += string(rune(sym))
		}
	})
}

func (s *textScreen) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// currentText returns the current text with a cursor, each line at full width. changed closes when the text is
// outdated.
func (s *textScreen) currentText() (text [rows]string, changed <-chan struct{}, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range text {
		line := ""
		if i < len(s.lines) {
			line = s.lines[i]
			if i == len(s.lines)-1 {
				line += "_"
			}
		}
		line = line[:min(len(line), columns)]
		text[i] = line + strings.Repeat(" ", columns-len(line))
	}
	return text, s.changed, s.ended
}
