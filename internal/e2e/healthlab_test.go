//go:build linux

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"quantix/internal/healthpolicy"
)

// Files in /run/libvirt of each host of the lab: its kernel log, and what its smartctl prints for its disk.
const (
	labKernelLog = "quantix-kernel-log"
	labDisk      = "quantix-disk.json"
)

// labSmartctl is the smartctl of the hosts of the lab. A host without the file has no disk.
const labSmartctl = `#!/bin/sh
case "$*" in
*--scan-open*) if [ -e /run/libvirt/` + labDisk + ` ]; then echo '{"devices": [{"name": "/dev/sda", "type": "sat"}]}'; else echo '{"devices": []}'; fi ;;
*) cat /run/libvirt/` + labDisk + ` ;;
esac
`

// labHealthEnv gives the agents of the lab a kernel log and a smartctl that tests control.
func labHealthEnv() []string {
	dir := filepath.Join(root, "lab-programs")
	_ = os.MkdirAll(dir, 0o755)
	_ = os.WriteFile(filepath.Join(dir, "smartctl"), []byte(labSmartctl), 0o755)
	return []string{"QUANTIX_KERNEL_LOG=/run/libvirt/" + labKernelLog, "PATH=" + dir + ":" + os.Getenv("PATH")}
}

func (a api) policyByName(t *testing.T, name string) healthpolicy.Policy {
	t.Helper()
	all := requestJSON[struct{ Items []healthpolicy.Policy }](t, a, http.StatusOK, http.MethodGet, "/api/v1/policies", nil).Items
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no policy %s", name)
	return healthpolicy.Policy{}
}
