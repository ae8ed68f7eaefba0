//go:build linux && ordeal

package libvirt_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

const (
	testCHAPUser     = "quantix"
	testCHAPPassword = "secretsecret1"
	lunBytes         = 32<<20 - 512 // libvirt 9.0 ignores the last block
	lunMark          = "this is the first block of the LUN"
)

// iscsiTarget is an iSCSI target on this machine with two LUNs and CHAP authentication.
type iscsiTarget struct {
	t         *testing.T
	dir, port string
	iqn       string
	daemon    *exec.Cmd
}

func newISCSITarget(t *testing.T) *iscsiTarget {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "tgt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(at.Addr().String())
	at.Close()
	g := &iscsiTarget{t: t, dir: dir, port: port, iqn: "iqn.2026-01.org.example:" + strings.ToLower(filepath.Base(dir))}
	for n, text := range map[int]string{1: lunMark, 2: ""} {
		if err := os.WriteFile(g.lunFile(n), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(g.lunFile(n), int64(n)*32<<20); err != nil {
			t.Fatal(err)
		}
	}
	g.start()
	t.Cleanup(g.stop)
	return g
}

func (g *iscsiTarget) lunFile(n int) string { return filepath.Join(g.dir, fmt.Sprintf("lun-%d", n)) }

func (g *iscsiTarget) start() {
	g.t.Helper()
	env := append(os.Environ(), "TGT_IPC_SOCKET="+g.dir+"/ipc")
	g.daemon = exec.Command("tgtd", "-f", "-C", "1", "--iscsi", "portal=127.0.0.1:"+g.port)
	g.daemon.Env = env
	if err := g.daemon.Start(); err != nil {
		g.t.Fatal(err)
	}
	ask := func(args ...string) ([]byte, error) {
		cmd := exec.Command("tgtadm", append([]string{"-C", "1", "--lld", "iscsi"}, args...)...)
		cmd.Env = env
		return cmd.CombinedOutput()
	}
	waitFor(g.t, "the target answers", func() bool { _, err := ask("--op", "show", "--mode", "sys"); return err == nil })
	for _, args := range [][]string{
		{"--op", "new", "--mode", "target", "--tid", "1", "-T", g.iqn},
		{"--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", g.lunFile(1)},
		{"--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "2", "-b", g.lunFile(2)},
		{"--op", "new", "--mode", "account", "--user", testCHAPUser, "--password", testCHAPPassword},
		{"--op", "bind", "--mode", "account", "--tid", "1", "--user", testCHAPUser},
		{"--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"},
	} {
		if out, err := ask(args...); err != nil {
			g.t.Fatalf("tgtadm %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
}

func (g *iscsiTarget) stop() {
	_ = g.daemon.Process.Kill()
	_ = g.daemon.Wait()
}

// pool returns the target as a pool, which is released when the test ends.
func (g *iscsiTarget) pool(b backend, user string) fleet.Pool {
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{
		Kind: fleet.PoolISCSIDirect, Portal: "127.0.0.1:" + g.port, Target: g.iqn, Initiator: "iqn.2026-01.org.example:host", User: user, Shared: true,
	}}
	return releasedPool(g.t, b, p)
}

// releasedPool gives the block pool a unique name and releases the pool when the test ends.
func releasedPool(t *testing.T, b backend, p fleet.Pool) fleet.Pool {
	p.Name = string(p.Spec.Kind) + "-" + string(p.ID)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := b.ReleasePool(ctx, p); err != nil {
			t.Error(err)
		}
	})
	return p
}

const firstLUN, secondLUN = "unit:0:0:1", "unit:0:0:2"

// A target's LUNs are the pool's volumes. A VM uses a LUN with the pool's secret. Quantix never creates, changes or
// deletes LUNs.
func TestISCSIPoolAttachesLUNsAndRecovers(t *testing.T) {
	t.Parallel()
	g := newISCSITarget(t)
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	p := g.pool(b, testCHAPUser)
	f := fixture{backend: b, t: t, pool: p}

	for _, c := range []struct{ secret, want string }{{"", "no secret with matching uuid"}, {"wrong-password", "authentication failure"}} {
		secret, what := c.secret, c.want
		if secret != "" {
			f.requireNoError(b.SetPoolSecret(t.Context(), p, secret))
		}
		if err := b.ApplyPool(t.Context(), p); err == nil || !strings.Contains(strings.ToLower(err.Error()), what) || secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("with the secret %q: %v, want %q", secret, err, what)
		}
		if st := poolStatusOf(t, b, p); st.State != fleet.PoolFailed || !strings.Contains(strings.ToLower(st.Error), what) {
			t.Errorf("with the secret %q the pool is %+v", secret, st)
		}
	}
	f.requireNoError(b.SetPoolSecret(t.Context(), p, testCHAPPassword))
	for range 2 {
		f.requireNoError(b.ApplyPool(t.Context(), p))
	}
	if out, err := tryVirsh("secret-get-value", string(p.ID)); err == nil || strings.Contains(out, "c2VjcmV0") {
		t.Errorf("the secret can be read back: %s", out)
	}
	waitPoolStatus(t, b, p, "active with its LUNs", func(s fleet.PoolStatus) bool {
		return s.State == fleet.PoolActive && len(s.Volumes) == 2 && s.Volumes[0].Name == firstLUN && s.Volumes[1].Name == secondLUN
	})
	st := poolStatusOf(t, b, p)
	if v := st.Volumes[0]; v.Format != fleet.FormatLUN || v.CapacityBytes != lunBytes || v.Path != "iscsi:"+g.iqn+"/1" || len(v.UsedBy) > 0 || v.IsImage() {
		t.Errorf("the LUN is %+v", v)
	}

	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{{PoolID: p.ID, Volume: firstLUN, Existing: true}}
	for range 2 {
		f.requireNoError(b.ApplyVM(t.Context(), applyJob(vm, p)))
	}
	f.requireNoError(b.StartVM(t.Context(), vm.ID))
	if out := virsh(t, "domblkinfo", string(vm.ID), "vda"); !strings.Contains(out, "33554432") {
		t.Errorf("the guest's disk: %s", out)
	}
	xml := virsh(t, "dumpxml", string(vm.ID), "--inactive", "--security-info")
	for _, want := range []string{"protocol='iscsi'", "name='" + g.iqn + "/1'", "uuid='" + string(p.ID) + "'", "type='raw'"} {
		if !strings.Contains(xml, want) {
			t.Errorf("the definition lacks %s:\n%s", want, xml)
		}
	}
	if strings.Contains(xml, testCHAPPassword) {
		t.Error("the definition contains the secret")
	}
	status, _, err := b.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if d := status.Disks; len(status.Drift)+len(status.Faults) > 0 || len(d) != 1 || d[0].Volume == nil || *d[0].Volume != vm.Spec.Disks[0].Ref() || d[0].SizeBytes != lunBytes {
		t.Errorf("the VM is %+v", status)
	}
	waitPoolStatus(t, b, p, "used", func(s fleet.PoolStatus) bool {
		return len(s.Volumes) == 2 && len(s.Volumes[0].UsedBy) == 1 && s.Volumes[0].UsedBy[0] == vm.ID && len(s.Volumes[1].UsedBy) == 0
	})

	// A LUN in use is refused to other VMs, including a LUN used by an unmanaged VM.
	other := f.newVM()
	other.Spec.Disks = []fleet.Disk{{PoolID: p.ID, Volume: firstLUN, Existing: true}}
	if err := b.ApplyVM(t.Context(), applyJob(other, p)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "is in use by another VM") {
		t.Errorf("the LUN for another VM: %v", err)
	}
	defineUnmanagedDomain(t, `<disk type='volume' device='disk'><driver name='qemu' type='raw'/><source pool='`+p.Name+`' volume='`+secondLUN+`'/><target dev='vda' bus='virtio'/></disk>`)
	other.Spec.Disks[0].Volume = secondLUN
	if err := b.ApplyVM(t.Context(), applyJob(other, p)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "is in use by another VM") {
		t.Errorf("the LUN of an unmanaged VM: %v", err)
	}
	other.Spec.Disks[0].Volume = "unit:0:0:7"
	if err := b.ApplyVM(t.Context(), applyJob(other, p)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "has no volume named unit:0:0:7") {
		t.Errorf("a missing LUN: %v", err)
	}
	other.Spec.Disks[0] = fleet.Disk{PoolID: p.ID, Volume: "new.raw", SizeBytes: 1 << 20}
	if err := b.ApplyVM(t.Context(), applyJob(other, p)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "cannot create volumes") {
		t.Errorf("a disk to create: %v", err)
	}
	if err := b.ReleasePool(t.Context(), p); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("release while a VM uses the pool: %v", err)
	}

	all := f.destructiveJobs(secondLUN)
	all["create"] = b.CreateVolume(t.Context(), f.volumeJob("new", fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20}))
	all["clone"] = b.CloneVolume(t.Context(), f.volumeJob("copy", fleet.VolumeParams{Source: secondLUN}))
	all["fetch"] = b.FetchVolume(t.Context(), f.volumeJob("image", fleet.VolumeParams{URL: "https://example.org/image"}))
	for act, err := range all {
		if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "defines its volumes") {
			t.Errorf("%s: %v", act, err)
		}
	}

	// A disk that virsh removed from the definition is drift, and reapply restores the disk with its secret.
	f.requireNoError(b.StopVM(t.Context(), vm.ID))
	virsh(t, "detach-disk", string(vm.ID), "vda", "--config")
	waitFor(t, "the drift shows", func() bool {
		s, _, err := b.VM(t.Context(), vm.ID)
		return err == nil && len(s.Drift) == 1 && s.Drift[0].Field == "disks"
	})
	back := applyJob(vm, p)
	back.Reapply = true
	f.requireNoError(b.ApplyVM(t.Context(), back))
	f.requireNoError(b.StartVM(t.Context(), vm.ID))

	// If the iSCSI server stops, the guest stays running and its I/O waits. After the server's restart the pool and the
	// guest recover without a job.
	g.stop()
	f.requireNoError(b.ApplyVM(t.Context(), applyJob(f.newVM(), p)))
	waitPoolStatus(t, b, p, "failed", func(s fleet.PoolStatus) bool {
		_ = b.ApplyPool(t.Context(), p)
		return s.State == fleet.PoolFailed && strings.Contains(s.Error, "Failed to connect")
	})
	if power := powerOf(t, vm.ID); power != fleet.Running {
		t.Errorf("the guest is %s", power)
	}
	g.start()
	waitPoolStatus(t, b, p, "active again", isPoolActive)
	f.requireNoError(b.StopVM(t.Context(), vm.ID))

	f.requireNoError(b.DeleteVM(t.Context(), vm, []fleet.Pool{p}, true))
	if text, err := os.ReadFile(g.lunFile(1)); err != nil || !bytes.HasPrefix(text, []byte(lunMark)) {
		t.Errorf("the LUN was written to: %v", err)
	}
}

// A wrong server, a wrong target, a missing user and a second pool of the same name are reported.
func TestISCSIErrorsAreReported(t *testing.T) {
	t.Parallel()
	g := newISCSITarget(t)
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	for what, c := range map[string]struct {
		change func(*fleet.PoolSpec)
		want   string
	}{
		"no user":           {func(s *fleet.PoolSpec) { s.User = "" }, "Authentication failure(513)"},
		"closed port":       {func(s *fleet.PoolSpec) { s.User, s.Portal = "", "127.0.0.1:1" }, "Failed to connect"},
		"no such target":    {func(s *fleet.PoolSpec) { s.User, s.Target = "", s.Target+"-other" }, "Target not found(515)"},
		"unknown host name": {func(s *fleet.PoolSpec) { s.User, s.Portal = "", "no-such-host.invalid" }, "no-such-host.invalid"},
	} {
		p := g.pool(b, testCHAPUser)
		c.change(&p.Spec)
		p = releasedPool(t, b, fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: p.Spec})
		err := b.ApplyPool(t.Context(), p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if st := poolStatusOf(t, b, p); st.State != fleet.PoolFailed || st.Error == "" {
			t.Errorf("%s: the pool is %+v", what, st)
		}
	}
	p := g.pool(b, testCHAPUser)
	if err := b.SetPoolSecret(t.Context(), p, testCHAPPassword); err != nil {
		t.Fatal(err)
	}
	if err := b.ApplyPool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	moved := p
	moved.Spec.Target += "-other"
	if err := b.ApplyPool(t.Context(), moved); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), g.iqn+" at 127.0.0.1:"+g.port) {
		t.Errorf("another target under the same name: %v", err)
	}
	if err := b.ReleasePool(t.Context(), p); err != nil {
		t.Error(err)
	}
	if out, err := tryVirsh("secret-dumpxml", string(p.ID)); err == nil {
		t.Errorf("the released pool's secret is still there: %s", out)
	}
}
