//go:build linux && ordeal

package libvirt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// cephCluster is a Ceph cluster with one monitor and one OSD, in memory.
type cephCluster struct {
	t       *testing.T
	dir     string
	monitor string
	osd     *exec.Cmd
}

const cephPool = "vms"

// newCephCluster starts a cluster. The start takes seconds, so a single test covers everything about RBD pools.
func newCephCluster(t *testing.T) *cephCluster {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "ceph")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := &cephCluster{t: t, dir: dir, monitor: freeLowPort(t)}
	fsid, osd := string(fleet.NewID[fleet.PoolID]()), string(fleet.NewID[fleet.PoolID]())
	conf := strings.NewReplacer("$DIR", dir, "$FSID", fsid, "$MON", g.monitor).Replace(`[global]
fsid = $FSID
mon_host = v1:$MON
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = $DIR/keyring
run_dir = $DIR
admin_socket = $DIR/$name.asok
log_file = $DIR/$name.log
ms_bind_msgr2 = false
ms_async_op_threads = 1
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_warn_on_insecure_global_id_reclaim_allowed = false
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
mon_tick_interval = 1
mon_data_avail_crit = 0
mon_data_avail_warn = 0
osd_crush_chooseleaf_type = 0
[mon.a]
mon_data = $DIR/mon
[osd.0]
osd_data = $DIR/osd
osd_objectstore = memstore
memstore_device_bytes = 268435456
osd_memory_target = 939524096
osd_op_num_shards = 1
osd_op_num_threads_per_shard = 2
`)
	if err := errors.Join(os.Mkdir(dir+"/mon", 0o700), os.Mkdir(dir+"/osd", 0o700), os.WriteFile(dir+"/ceph.conf", []byte(conf), 0o600)); err != nil {
		t.Fatal(err)
	}
	keys := [][]string{{"mon.", "mon", "allow *"}, {"client.admin", "mon", "allow *", "osd", "allow *"}, {"osd.0", "mon", "allow profile osd", "osd", "allow *"}, {"client.libvirt", "mon", "profile rbd", "osd", "profile rbd"}}
	for i, k := range keys {
		args := []string{dir + "/keyring", "--gen-key", "-n", k[0]}
		if i == 0 {
			args = append([]string{"-C"}, args...)
		}
		for c := 1; c < len(k); c += 2 {
			args = append(args, "--cap", k[c], k[c+1])
		}
		g.runCommand("ceph-authtool", args...)
	}
	g.runCommand("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", "v1:"+g.monitor, dir+"/monmap")
	g.runCommand("ceph-mon", "-i", "a", "--mkfs", "--monmap", dir+"/monmap", "--keyring", dir+"/keyring")
	g.daemon("ceph-mon", "-i", "a", "-f")
	output := ""
	t.Cleanup(func() {
		if t.Failed() && output != "" {
			log, _ := os.ReadFile(dir + "/mon.a.log")
			t.Logf("the monitor did not answer: %s\n%s", output, log[max(0, len(log)-2000):])
		}
	})
	waitFor(t, "the monitor answers", func() bool {
		out, err := g.tryCommand("ceph", "--connect-timeout", "30", "osd", "new", osd, "0")
		if output = out; err == nil {
			output = ""
		}
		return err == nil
	})
	g.runCommand("ceph-osd", "-i", "0", "--mkfs", "--no-mon-config", "--osd-uuid", osd, "--keyring", dir+"/keyring")
	g.runCommand("ceph", "osd", "crush", "add", "osd.0", "1.0", "root=default")
	g.osd = g.daemon("ceph-osd", "-i", "0", "-f")
	waitFor(t, "the OSD is up", func() bool {
		out, err := g.tryCommand("ceph", "osd", "stat")
		return err == nil && strings.Contains(out, "1 up")
	})
	g.runCommand("ceph", "osd", "pool", "create", cephPool, "8", "8")
	g.runCommand("ceph", "osd", "pool", "application", "enable", cephPool, "rbd")
	return g
}

// freeLowPort returns a free address below the range of ephemeral ports, so no connection takes it before the monitor
// does.
func freeLowPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if at, err := net.Listen("tcp", address); err == nil {
			at.Close()
			return address
		}
	}
	t.Fatal("no port is free for the monitor")
	return ""
}

func (g *cephCluster) daemon(name string, args ...string) *exec.Cmd {
	g.t.Helper()
	cmd := exec.Command(name, append([]string{"-c", g.dir + "/ceph.conf"}, args...)...)
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func (g *cephCluster) tryCommand(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), guestStepTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, append([]string{"-c", g.dir + "/ceph.conf"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (g *cephCluster) runCommand(name string, args ...string) string {
	g.t.Helper()
	out, err := g.tryCommand(name, args...)
	if err != nil {
		g.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// logState logs the cluster's state, because a pool that does not recover may be the cluster's fault.
func (g *cephCluster) logState() {
	g.t.Helper()
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.osd.Process.Pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	g.t.Logf("the OSD's process is in state %.1s", state)
	for _, about := range [][]string{{"ceph", "--connect-timeout", "10", "status"}, {"rbd", "ls", cephPool}} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		out, err := exec.CommandContext(ctx, about[0], append([]string{"-c", g.dir + "/ceph.conf"}, about[1:]...)...).CombinedOutput()
		cancel()
		g.t.Logf("%s: %v: %s", strings.Join(about, " "), err, out)
	}
	for _, name := range []string{"mon.a", "osd.0"} {
		log, _ := os.ReadFile(g.dir + "/" + name + ".log")
		g.t.Logf("log of %s: %s", name, log[max(0, len(log)-3000):])
	}
}

func (g *cephCluster) pool(b backend, user string) fleet.Pool {
	return releasedPool(g.t, b, fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{
		Kind: fleet.PoolRBD, Monitors: g.monitor, CephPool: cephPool, User: user, Shared: true,
	}})
}

// wrongKey is a valid key that no cluster uses.
const wrongKey = "AQBAAAAAAAAAABAAfuM/uuQ+ByFp8jV4wXUCCjAoNJx4Nw=="

// The test covers the key of an RBD pool, its volumes, the disks of VMs, and a cluster that hangs.
func TestRBDPoolServesDisksAndRecoversFromHang(t *testing.T) {
	t.Parallel()
	g := newCephCluster(t)
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	p := g.pool(b, "libvirt")
	f := fixture{backend: b, t: t, pool: p}

	// libvirt tries a wrong key for 30 s. Other jobs do not wait for this attempt.
	wrong, refused := g.pool(b, "libvirt"), make(chan error, 1)
	wrong.Spec.CephPool = "other"
	f.requireNoError(b.SetPoolSecret(t.Context(), wrong, wrongKey))
	go func() { refused <- b.ApplyPool(t.Context(), wrong) }()

	key := g.runCommand("ceph", "auth", "get-key", "client.libvirt")
	f.requireNoError(b.SetPoolSecret(t.Context(), p, key))
	for range 2 {
		f.requireNoError(b.ApplyPool(t.Context(), p))
	}
	waitPoolStatus(t, b, p, "active", isPoolActive)

	// Volumes of the pool are created, grown and deleted.
	f.requireNoError(b.CreateVolume(t.Context(), f.volumeJob("data", fleet.VolumeParams{Format: "raw", SizeBytes: 8 << 20})))
	if err := b.CreateVolume(t.Context(), f.volumeJob("data", fleet.VolumeParams{Format: "raw", SizeBytes: 8 << 20})); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "already has a volume named data") {
		t.Errorf("create a second volume with the same name: %v", err)
	}
	again := f.volumeJob("data", fleet.VolumeParams{Format: "raw", SizeBytes: 8 << 20})
	again.RecordedFile = "rbd:vms/data"
	f.requireNoError(b.CreateVolume(t.Context(), again))
	if err := b.CreateVolume(t.Context(), f.volumeJob("q", fleet.VolumeParams{Format: "qcow2", SizeBytes: 8 << 20})); fleet.CodeOf(err) != fleet.Invalid {
		t.Errorf("a qcow2 volume: %v", err)
	}
	for range 2 {
		f.requireNoError(b.GrowVolume(t.Context(), f.volumeJob("data", fleet.VolumeParams{SizeBytes: 16 << 20})))
	}
	if err := b.GrowVolume(t.Context(), f.volumeJob("data", fleet.VolumeParams{SizeBytes: 1 << 20})); fleet.CodeOf(err) != fleet.Invalid || !strings.Contains(err.Error(), "can only grow") {
		t.Errorf("shrink: %v", err)
	}
	f.requireNoError(b.CloneVolume(t.Context(), f.volumeJob("copy", fleet.VolumeParams{Source: "data"})))
	f.requireNoError(b.WipeVolume(t.Context(), f.volumeJob("copy", fleet.VolumeParams{})))
	waitPoolStatus(t, b, p, "with its volumes", func(s fleet.PoolStatus) bool {
		return len(s.Volumes) == 2 && s.Volumes[0].Name == "copy" && s.Volumes[1].Name == "data" && s.Volumes[1].CapacityBytes == 16<<20
	})
	if v := poolStatusOf(t, b, p).Volumes[1]; v.Path != "rbd:vms/data" || v.Format != fleet.FormatRBD || v.IsImage() {
		t.Errorf("the volume is %+v", v)
	}
	if err := b.DeleteVolume(t.Context(), f.volumeJob("data", fleet.VolumeParams{})); err == nil || !strings.Contains(err.Error(), "failed to remove volume 'vms/data'") {
		t.Errorf("delete the parent of a clone: %v", err)
	}
	f.requireNoError(b.DeleteVolume(t.Context(), f.volumeJob("copy", fleet.VolumeParams{})))
	for range 2 {
		f.requireNoError(b.CreateVolume(t.Context(), hypervisor.VolumeWork{Pool: p, Name: "gone", Params: fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20}, RecordFile: func(string) error { return nil }, Progress: func(int, string) {}}))
		f.requireNoError(b.DeleteVolume(t.Context(), f.volumeJob("gone", fleet.VolumeParams{})))
		f.requireNoError(b.DeleteVolume(t.Context(), f.volumeJob("gone", fleet.VolumeParams{})))
	}

	// A VM uses a volume of the pool as its disk.
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{{PoolID: p.ID, Volume: "disk-1.raw", SizeBytes: 8 << 20}}
	whole := 0
	in := applyJob(vm, p)
	in.RecordDisk = func(fleet.Volref) error { whole++; return nil }
	f.requireNoError(b.ApplyVM(t.Context(), in))
	in.CreatedDisks = []fleet.Volref{vm.Spec.Disks[0].Ref()}
	f.requireNoError(b.ApplyVM(t.Context(), in))
	if whole != 1 {
		t.Errorf("the disk was created %d times", whole)
	}
	f.requireNoError(b.StartVM(t.Context(), vm.ID))
	if out := virsh(t, "domblkinfo", string(vm.ID), "vda"); !strings.Contains(out, "8388608") {
		t.Errorf("the guest's disk: %s", out)
	}
	status, _, err := b.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if d := status.Disks; len(status.Drift)+len(status.Faults) > 0 || len(d) != 1 || d[0].Path != "rbd:vms/disk-1.raw" {
		t.Errorf("the VM is %+v", status)
	}
	for act, err := range f.destructiveJobs("disk-1.raw") {
		want := "is in use by the VM"
		if act == "rename" {
			want = "libvirt cannot rename volumes"
		}
		if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%s a disk in use: %v", act, err)
		}
	}
	// The disk grows for the running guest, even if an agent ended between growing the image and notifying the guest.
	for _, mib := range []int64{16, 24} {
		if mib == 24 {
			virsh(t, "vol-resize", "disk-1.raw", "24M", "--pool", p.Name)
		}
		vm.Generation, vm.Spec.Disks = vm.Generation+1, []fleet.Disk{{PoolID: p.ID, Volume: "disk-1.raw", SizeBytes: mib << 20}}
		in.VM = vm
		f.requireNoError(b.ApplyVM(t.Context(), in))
		if out := virsh(t, "domblkinfo", string(vm.ID), "vda"); !strings.Contains(out, strconv.FormatInt(mib<<20, 10)) {
			t.Errorf("of a disk of %d MiB the guest sees: %s", mib, out)
		}
	}
	f.requireNoError(b.StopVM(t.Context(), vm.ID))

	// If the cluster hangs, only its pool is reported as stalled. Other pools and VMs keep working.
	beside := newFixtureOn(t, b)
	f.requireNoError(g.osd.Process.Signal(syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	if err := b.ApplyPool(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("apply while the OSD is stopped: %v", err)
	}
	cancel()
	waitFor(t, "the pool is stalled", func() bool {
		// A check that waits for the storage returns librados' error after 30 s and misses the stalled state.
		s, err := b.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{p, beside.pool}}})
		for _, r := range s.Pools {
			if err == nil && r.ID == beside.pool.ID && r.Status.State != fleet.PoolActive {
				t.Errorf("the other pool is %+v", r.Status)
			}
		}
		i := 0
		if len(s.Pools) == 2 && s.Pools[1].ID == p.ID {
			i = 1
		}
		return err == nil && len(s.Pools) == 2 && s.Pools[i].Status.State == fleet.PoolStalled && strings.Contains(s.Pools[i].Status.Error, "has not answered since")
	})
	other := beside.newVM()
	other.Spec.Disks = []fleet.Disk{beside.newDisk("disk")}
	f.requireNoError(b.ApplyVM(t.Context(), applyJob(other, beside.pool)))
	if err := b.StartVM(t.Context(), vm.ID); fleet.CodeOf(err) != fleet.Unavailable {
		t.Errorf("start on a pool that hangs: %v", err)
	}
	f.requireNoError(g.osd.Process.Signal(syscall.SIGCONT))
	t.Cleanup(func() {
		if t.Failed() {
			g.logState()
		}
	})
	waitPoolStatus(t, b, p, "active again", isPoolActive)

	f.requireNoError(b.DeleteVM(t.Context(), vm, []fleet.Pool{p}, true))
	waitPoolStatus(t, b, p, "without the VM's disk", func(s fleet.PoolStatus) bool {
		return len(s.Volumes) == 1 && s.Volumes[0].Name == "data"
	})

	const want = "failed to connect to the RADOS monitor"
	if err := <-refused; err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), wrongKey) {
		t.Errorf("a wrong key: %v", err)
	}
	if st := poolStatusOf(t, b, wrong); st.State != fleet.PoolFailed || !strings.Contains(st.Error, want) {
		t.Errorf("with a wrong key the pool is %+v", st) // also during another attempt of libvirt
	}
}
