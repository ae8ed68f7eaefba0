// Package doctor checks whether this machine has the programs and files that one use of Quantix needs (portal, agent,
// demo, lab, tests or benchmarks), and installs missing ones where it can. It looks for the files and never in a
// package database, so it works on every distribution.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Purpose is the use of Quantix that this machine is checked for.
type Purpose string

// The purposes. Portal and Demo need only PostgreSQL. Test and Bench need everything that Lab needs, and more.
const (
	Portal Purpose = "portal"
	Agent  Purpose = "agent"
	Lab    Purpose = "lab"
	Test   Purpose = "test"
	Demo   Purpose = "demo"
	Bench  Purpose = "bench"
)

// Purposes lists all purposes, for help texts and argument checks.
func Purposes() []Purpose { return []Purpose{Portal, Agent, Lab, Test, Demo, Bench} }

// Check is the result of the check for one requirement.
type Check struct {
	Name     string
	Why      string // why Quantix needs the requirement
	OK       bool
	Optional bool     // Quantix runs without it, with the limit that Why names
	Found    string   // path of the program or file that was found; empty if missing
	Fix      string   // the command or instruction that fixes it; empty if OK
	Packages []string // Debian packages that contain it; empty: no package does
}

// Inspect checks all requirements of the purpose, in the order of the requirements table. It changes nothing.
func Inspect(ctx context.Context, p Purpose) []Check {
	return thisMachine().inspect(ctx, p)
}

// AllRequiredOK reports whether all required checks passed.
func AllRequiredOK(checks []Check) bool {
	for _, c := range checks {
		if !c.OK && !c.Optional {
			return false
		}
	}
	return true
}

// PrintChecks writes the checks as an aligned table: state (ok, missing, optional), name, reason, and path or fix.
func PrintChecks(out io.Writer, checks []Check) error {
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

// missingError returns an error that names the missing requirements, or nil.
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
