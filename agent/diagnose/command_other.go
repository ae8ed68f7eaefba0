//go:build !unix

package diagnose

import (
	"context"
	"io"
	"os/exec"
)

func findProgram(string) string { return "" }

func runCommand(context.Context, *exec.Cmd, io.Writer) error {
	return NotAvailableError{"This system runs no programs for diagnostics."}
}
