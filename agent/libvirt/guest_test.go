//go:build linux

package libvirt_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// runInTestGuest runs a command in a guest and returns its output.
func runInTestGuest(t *testing.T, id fleet.VMID, command string) string {
	t.Helper()
	ask := func(execute string, args map[string]any, out any) {
		text := must(json.Marshal(map[string]any{"execute": execute, "arguments": args}))
		answer := virsh(t, "qemu-agent-command", string(id), string(text), "--timeout", "60")
		if err := json.Unmarshal([]byte(answer), &struct{ Return any }{out}); err != nil {
			t.Fatalf("%s: %v: %s", execute, err, answer)
		}
	}
	var began struct{ PID int }
	ask("guest-exec", map[string]any{"path": "/bin/sh", "arg": []string{"-c", command}, "capture-output": true}, &began)
	var answer struct {
		Exited bool
		Out    string `json:"out-data"`
	}
	waitFor(t, "the guest has done "+command, func() bool {
		ask("guest-exec-status", map[string]any{"pid": began.PID}, &answer)
		return answer.Exited
	})
	return string(must(base64.StdEncoding.DecodeString(answer.Out)))
}

// prepareGuest mounts a file system in the guest. It also installs hwclock and a fake chpasswd that records the
// passwords.
func prepareGuest(t *testing.T, id fleet.VMID) {
	t.Helper()
	waitFor(t, "the guest has its second disk", func() bool {
		return strings.Contains(runInTestGuest(t, id, "ls /dev/vdb && grep -w ext4 /proc/filesystems"), "ext4")
	})
	if out := runInTestGuest(t, id, "exec 2>&1; mkdir -p /data && mke2fs /dev/vdb && mount -t ext4 /dev/vdb /data && echo mounted; dmesg | tail -3"); !strings.Contains(out, "mounted") {
		t.Fatalf("the guest has no file system: %s", out)
	}
	runInTestGuest(t, id, `printf '#!/bin/sh\ncat >>/tmp/given\n' >/sbin/chpasswd; chmod 755 /sbin/chpasswd; ln -s /bin/busybox /sbin/hwclock`)
}

func isGuestFrozen(t *testing.T, id fleet.VMID) bool {
	t.Helper()
	return strings.Contains(virsh(t, "qemu-agent-command", string(id), `{"execute":"guest-fsfreeze-status"}`, "--timeout", "30"), "frozen")
}

// guestHasPassword reports whether the fake chpasswd last recorded this password for the user.
func guestHasPassword(t *testing.T, id fleet.VMID, user, password string) bool {
	t.Helper()
	return strings.TrimSpace(runInTestGuest(t, id, "tail -n 1 /tmp/given")) == user+":"+password
}
