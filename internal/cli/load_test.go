package cli

import (
	"context"
	"io"
	"strings"
	"testing"
)

// The error of the load command names missing or contradictory flags, before the command starts or contacts a portal.
func TestLoadErrorNamesMissingOrContradictoryFlags(t *testing.T) {
	t.Parallel()
	canceled, stop := context.WithCancel(t.Context())
	stop() // so that not even accepted flags start anything
	for args, want := range map[string]string{
		"":                           "--self for a temporary portal",
		"--portal http://localhost":  "--token-file",
		"--self --portal http://x":   "leave out --portal",
		"--self --keep":              "--keep",
		"--self --token-file secret": "--token-file",
		"--portal http://localhost --token-file /nowhere/at/all": "read the secret",
		"--hosts many": "--hosts",
	} {
		root := newRoot()
		root.SetArgs(append([]string{"load"}, strings.Fields(args)...))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(canceled); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("load %s: %v, want an error with %q", args, err, want)
		}
	}
}
