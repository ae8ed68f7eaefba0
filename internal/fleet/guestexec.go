package fleet

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// GuestProgram is a program in a guest with its arguments. It runs without a shell.
type GuestProgram struct {
	Program string   `json:"program"` // path in the guest, or a name that the guest looks up in its PATH
	Args    []string `json:"args"`
}

// Bounds of programs that run in guests.
const (
	MaxExec            = 300 // seconds that the host waits for a program
	DefaultExec        = 30
	MaxProgram         = 255      // bytes of the path
	MaxProgramArgs     = 64       // arguments
	MaxProgramArgBytes = 8 << 10  // bytes of all arguments
	MaxCheckArgs       = 1 << 10  // bytes of a health check's arguments, which are small because each report repeats them
	MaxGuestOutput     = 64 << 10 // bytes stored of stdout and of stderr
	MaxGuestRuns       = 20       // runs per VM with stored output
)

// CommandLine returns the program and its arguments.
func (p GuestProgram) CommandLine() []string { return append([]string{p.Program}, p.Args...) }

// GuestProgram returns the program of an exec check.
func (h HealthCheck) GuestProgram() GuestProgram {
	p := GuestProgram{Program: h.Program}
	if h.Args != "" {
		p.Args = strings.Split(h.Args, "\n")
	}
	return p
}

// SplitArgLines splits a text with one argument per line. Empty lines at the end are ignored.
func SplitArgLines(text string) []string {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// CheckGuestProgram adds errors at the fields program and args if a guest cannot run the program. Errors never contain an
// argument, which may be a secret.
func CheckGuestProgram(c *Checks, program, args string, p GuestProgram) {
	switch {
	case p.Program == "":
		c.Add(program, "Enter a program, such as /usr/bin/systemctl.")
	case len(p.Program) > MaxProgram || !utf8.ValidString(p.Program) || !IsPlainText(p.Program):
		c.Add(program, "The path of a program is one line of at most %d bytes.", MaxProgram)
	case strings.TrimSpace(p.Program) != p.Program:
		c.Add(program, "Remove the spaces around the program's path.")
	}
	size := 0
	for _, a := range p.Args {
		size += len(a)
	}
	switch {
	case len(p.Args) > MaxProgramArgs:
		c.Add(args, "A program has at most %d arguments.", MaxProgramArgs)
	case size > MaxProgramArgBytes:
		c.Add(args, "All arguments together have at most %d bytes. Put more into a file in the guest.", MaxProgramArgBytes)
	case slices.ContainsFunc(p.Args, func(a string) bool { return strings.ContainsRune(a, 0) || !utf8.ValidString(a) }):
		c.Add(args, "An argument must be UTF-8 text without NUL characters.")
	}
}

// CheckExecTimeout adds an error at field if the maximum wait for a program is out of bounds.
func CheckExecTimeout(c *Checks, field string, seconds int) {
	if seconds < 1 || seconds > MaxExec {
		c.Add(field, "Wait for 1 to %d seconds.", MaxExec)
	}
}

// GuestOutput is the result of a program in a guest. Its texts are untrusted: they are shortened, and non-printable
// characters are removed.
type GuestOutput struct {
	ExitCode  int    `json:"exitCode"`
	Signal    int    `json:"signal,omitempty"` // signal that ended the program; 0: it exited
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	StdoutCut bool   `json:"stdoutCut,omitempty"` // stdout was longer than MaxGuestOutput
	StderrCut bool   `json:"stderrCut,omitempty"`
}

// GuestRun is a program that a user ran in a guest. Its arguments are never stored, because they may be secrets.
type GuestRun struct {
	Program string       `json:"program"`
	Args    int          `json:"args"`    // number of arguments
	Seconds int          `json:"seconds"` // maximum wait of the host
	Output  *GuestOutput `json:"output"`  // null: the program has not ended, or its result is unknown
}
