//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"strings"
)

// fakeMount stands before the host's mount program, for the server names "good" (a tmpfs), "flaky" (a directory, while
// its server is not away and exports nothing other), "refuses" and "hangs"; all the
// rest of the way is libvirt's own. The host has a mount namespace of its own, so nobody else sees it.
const fakeMount = `#!/bin/bash
for a in "$@"; do
	case $a in
	good:*) exec "$REAL" -t tmpfs -o size=16m "$a" "${@: -1}" ;;
	flaky:*)
		dir="${a#flaky:}"
		[ -e "$dir/away" ] && { echo "mount.nfs: Connection refused for flaky" >&2; exit 32; }
		mkdir -p "$dir/export"
		[ -e "$dir/other" ] && exec "$REAL" -t tmpfs -o size=16m "$a" "${@: -1}"
		exec "$REAL" --bind "$dir/export" "${@: -1}" ;;
	refuses:*) echo "mount.nfs: access denied by server while mounting $a" >&2; exit 32 ;;
	hangs:*) while [ -e "${a#hangs:}/hang" ]; do sleep 0.1; done; echo "mount.nfs: gave up" >&2; exit 32 ;;
	esac
done
exec "$REAL" "$@"
`

func installFakeMount() error {
	dir, err := os.MkdirTemp("/run/libvirt", "mount")
	if err != nil {
		return err
	}
	copied, script := filepath.Join(dir, "real"), filepath.Join(dir, "fake")
	text, err := os.ReadFile("/usr/bin/mount")
	if err != nil {
		return err
	}
	if err := os.WriteFile(copied, text, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(script, []byte(strings.ReplaceAll(fakeMount, "$REAL", copied)), 0o755); err != nil {
		return err
	}
	return bindMount(script, "/usr/bin/mount")
}

func init() {
	prepareHost = installFakeMount
	asChild = func() (bool, error) {
		socket, dir := os.Getenv(childSocket), os.Getenv(childDir)
		switch {
		case socket == "":
			return false, nil
		case dir != "":
			return true, runAgent(socket, dir)
		}
		return true, runChild(socket)
	}
}
