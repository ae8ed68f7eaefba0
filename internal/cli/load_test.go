package cli

import (
	"context"
	"io"
	"strings"
	"testing"
)

// What a load is to run against is said, and said once; nothing is started or asked before that.
func TestALoadSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	over, stop := context.WithCancel(t.Context())
	stop() // what is not refused starts nothing
	for args, want := range map[string]string{
		"":                           "--self for a portal of its own",
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
		if err := root.ExecuteContext(over); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("load %s says %v, want a word of %q", args, err, want)
		}
	}
}
