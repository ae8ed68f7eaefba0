package fleet

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// GuestProgram is a program in a guest and what it is given: never a line for a shell, unless the program is one.
type GuestProgram struct {
	Program string   `json:"program"` // its path in the guest, or a name that the guest looks for
	Args    []string `json:"args"`
}

// Bounds of what is run in guests.
const (
	MaxExec         = 300 // seconds that its host waits for a program to end
	UsualExec       = 30
	MaxProgram      = 255      // bytes of its path
	MaxProgramArgs  = 64       // arguments
	MaxProgramWords = 8 << 10  // bytes of all of them
	MaxCheckArgs    = 1 << 10  // bytes of a health check's, which each report repeats
	MaxGuestOutput  = 64 << 10 // bytes that are kept of each of a program's two outputs
	MaxGuestRuns    = 20       // of which the output is kept of each VM
)

// Words are the program and its arguments.
func (p GuestProgram) Words() []string { return append([]string{p.Program}, p.Args...) }

// Order is the program that an exec check runs.
func (h HealthCheck) Order() GuestProgram {
	p := GuestProgram{Program: h.Program}
	if h.Args != "" {
		p.Args = strings.Split(h.Args, "\n")
	}
	return p
}

// ArgLines are the arguments of a text that has one a line. Empty lines at its end are none.
func ArgLines(text string) []string {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// CheckProgram notes at the fields what no guest is asked to run. What is wrong with an argument is said without it: it may be a secret.
func CheckProgram(c *Checks, program, args string, p GuestProgram) {
	switch {
	case p.Program == "":
		c.Add(program, "Name the program, such as /usr/bin/systemctl.")
	case len(p.Program) > MaxProgram || !utf8.ValidString(p.Program) || !plain(p.Program):
		c.Add(program, "The path of a program is one line of at most %d bytes.", MaxProgram)
	case strings.TrimSpace(p.Program) != p.Program:
		c.Add(program, "A program is named without blanks around it.")
	}
	size := 0
	for _, a := range p.Args {
		size += len(a)
	}
	switch {
	case len(p.Args) > MaxProgramArgs:
		c.Add(args, "At most %d arguments.", MaxProgramArgs)
	case size > MaxProgramWords:
		c.Add(args, "All arguments together have at most %d bytes. Put more into a file in the guest.", MaxProgramWords)
	case slices.ContainsFunc(p.Args, func(a string) bool { return strings.ContainsRune(a, 0) || !utf8.ValidString(a) }):
		c.Add(args, "An argument is text without NUL.")
	}
}

// CheckExec notes at field where no host waits so long for a program.
func CheckExec(c *Checks, field string, seconds int) {
	if seconds < 1 || seconds > MaxExec {
		c.Add(field, "Wait for 1 to %d seconds.", MaxExec)
	}
}

// GuestOutput is how a program in a guest ended. It is the guest's word, cut to a length and rid of what no screen shows.
type GuestOutput struct {
	ExitCode  int    `json:"exitCode"`
	Signal    int    `json:"signal,omitempty"` // that ended it; 0: it ended by itself
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	StdoutCut bool   `json:"stdoutCut,omitempty"` // it wrote more
	StderrCut bool   `json:"stderrCut,omitempty"`
}

// GuestRun is a program that somebody had run in a guest. Its arguments are kept nowhere: they may be secrets.
type GuestRun struct {
	Program string       `json:"program"`
	Args    int          `json:"args"`    // how many
	Seconds int          `json:"seconds"` // that its host was to wait at most
	Output  *GuestOutput `json:"output"`  // null: it has not ended, or nobody knows how
}
