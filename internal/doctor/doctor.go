// Package doctor says what this machine lacks for a purpose of Quantix, and installs it where it can. It looks for programs and
// files, never into a package database, so that it is right on every distribution.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Purpose is what somebody wants to run here.
type Purpose string

// The purposes. Portal and Demo need PostgreSQL only; Test and Bench need all that Lab needs and more.
const (
	Portal Purpose = "portal"
	Agent  Purpose = "agent"
	Lab    Purpose = "lab"
	Test   Purpose = "test"
	Demo   Purpose = "demo"
	Bench  Purpose = "bench"
)

// Purposes lists all of them, for help texts and checks of arguments.
func Purposes() []Purpose { return []Purpose{Portal, Agent, Lab, Test, Demo, Bench} }

// Check is one need and what was found.
type Check struct {
	Name     string
	Why      string // what Quantix does with it
	OK       bool
	Optional bool     // without it the purpose works, with a limit that Why names
	Found    string   // the path; empty where nothing was found
	Fix      string   // the one command or sentence that mends it; empty where OK
	Packages []string // Debian's packages that bring it; empty where none can
}

// Inspect checks everything that the purpose needs, in the table's order. It changes nothing.
func Inspect(ctx context.Context, p Purpose) []Check {
	return thisMachine().inspect(ctx, p)
}

// Ready is true when nothing but optional things is missing.
func Ready(checks []Check) bool {
	for _, c := range checks {
		if !c.OK && !c.Optional {
			return false
		}
	}
	return true
}

// Print writes the checks as an aligned table: state (ok, missing, optional), name, reason, and where it is or how to get it.
func Print(out io.Writer, checks []Check) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range checks {
		detail := c.Found
		if !c.OK {
			detail = c.Fix
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.state(), c.Name, c.Why, detail); err != nil {
			return err
		}
	}
	return table.Flush()
}

func (c Check) state() string {
	switch {
	case c.OK:
		return "ok"
	case c.Optional:
		return "optional"
	}
	return "missing"
}

// missingError names what is required and not there, or is nil.
func missingError(checks []Check) error {
	var lines []string
	for _, c := range checks {
		if !c.OK && !c.Optional {
			lines = append(lines, fmt.Sprintf("%s (%s): %s", c.Name, c.Why, c.Fix))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("this machine still lacks:\n  %s", strings.Join(lines, "\n  "))
}
