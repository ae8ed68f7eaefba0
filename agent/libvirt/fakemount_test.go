//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"strings"
)

// fakeMount replaces the host's mount program for four server names. "good" mounts a tmpfs. "flaky" mounts a directory,
// fails while the file "away" exists, and mounts a tmpfs while the file "other" exists. "refuses" fails and "hangs"
// hangs. Other mounts run the real program. The host has its own mount namespace, so no other process is affected.
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
	prepareLabHost = installFakeMount
	runAsChild = func() (bool, error) {
		socket, dir := os.Getenv(childSocketEnv), os.Getenv(childDir)
		switch {
		case socket == "":
			return false, nil
		case dir != "":
			return true, runAgent(socket, dir)
		}
		return true, runChild(socket)
	}
}
