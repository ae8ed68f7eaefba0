//go:build linux

package bench

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/template"
	"quantix/internal/testkit/client"
	"quantix/internal/testkit/goals"
)

const (
	guestSamples   = 7
	bulkGuests     = 50
	bulkAtATime    = 4 // number of slow jobs that an agent runs at the same time
	bulkMemoryMiB  = 128
	guestRunsLimit = 2 * time.Minute
)

// guestLab is a lab with connections to its API and to the libvirt of its hosts.
type guestLab struct {
	*testing.B
	url, token string
	api        *client.Client
	hosts      []fleet.HostView
	uris       []string
	plain      []*libvirt.Libvirt
	project    fleet.ProjectID
}

func newGuestLab(b *testing.B) *guestLab {
	b.Helper()
	l := &guestLab{B: b}
	l.url, l.token, l.uris, _ = runLab(b)
	var err error
	if l.api, err = client.New(l.url, l.token, nil); err != nil {
		b.Fatal(err)
	}
	for i, uri := range l.uris {
		page, err := l.api.Hosts(b.Context(), fleet.Query{Filter: fmt.Sprintf("name:host-%d", i+1)})
		if err != nil || len(page.Items) != 1 {
			b.Fatal(page, err)
		}
		l.hosts, l.plain = append(l.hosts, page.Items[0]), append(l.plain, dialLibvirt(b, uri))
	}
	projects, err := l.api.Projects(b.Context(), fleet.Query{})
	if err != nil || len(projects.Items) == 0 {
		b.Fatal(projects, err)
	}
	l.project = projects.Items[0].ID
	return l
}

// callAPI calls API endpoints that the client package does not support.
func callAPI[T any](l *guestLab, method, path string, in any) (out T) {
	l.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		l.Fatal(err)
	}
	req, err := http.NewRequestWithContext(l.Context(), method, l.url+"/api/v1/"+path, strings.NewReader(string(text)))
	if err != nil {
		l.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		l.Fatalf("%s %s: status %d, %v: %s", method, path, res.StatusCode, err, answer)
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		l.Fatalf("%s %s: %v: %s", method, path, err, answer)
	}
	return out
}

// poll polls every 5 ms, and for long operations less often, at most 200 times in the elapsed time. More polling would
// use the two processors that are measured.
func (l *guestLab) poll(what string, done func() bool) {
	l.Helper()
	for began := time.Now(); !done(); time.Sleep(max(5*time.Millisecond, time.Since(began)/200)) {
		if time.Since(began) > guestRunsLimit {
			l.Fatalf("timed out: %s", what)
		}
	}
}

// waitTask waits until a task has ended. If it fails, the output has the children that failed, too.
func (l *guestLab) waitTask(id fleet.TaskID) {
	l.Helper()
	l.poll("the end of a task", func() bool {
		t, err := l.api.Task(l.Context(), id)
		if err != nil || t.State.IsFinal() && t.State != fleet.JobDone {
			children := callAPI[json.RawMessage](l, http.MethodGet, "tasks?filter=state:failed+parent:"+string(id), nil)
			l.Fatalf("%s %s %v: %s", t.State, t.Error, err, children)
		}
		return t.State.IsFinal()
	})
}

func (l *guestLab) getVM(id fleet.VMID) fleet.VMView {
	l.Helper()
	vm, err := l.api.VM(l.Context(), id)
	if err != nil || vm.Status != nil && vm.Status.Error != "" {
		l.Fatalf("%v: %+v", err, vm.Status)
	}
	return vm
}

func (l *guestLab) waitPhase(id fleet.VMID, want fleet.Phase) {
	l.Helper()
	l.poll(string(want), func() bool { return l.getVM(id).Phase == want })
}

func (l *guestLab) createVM(in control.CreateVM) fleet.VMID {
	l.Helper()
	in.ProjectID = l.project
	return callAPI[fleet.VMView](l, http.MethodPost, "vms", in).ID
}

func (l *guestLab) runCommand(name string, args ...string) string {
	l.Helper()
	out, err := exec.CommandContext(l.Context(), name, args...).CombinedOutput()
	if err != nil {
		l.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

func domainOf(l *guestLab, host int, id fleet.VMID) libvirt.Domain {
	l.Helper()
	uuid, err := hex.DecodeString(strings.ReplaceAll(string(id), "-", ""))
	if err != nil {
		l.Fatal(err)
	}
	d, err := l.plain[host].DomainLookupByUUID(libvirt.UUID(uuid))
	if err != nil {
		l.Fatal(err)
	}
	return d
}

// BenchmarkGuests measures operations on guests of real libvirt hosts, under emulation, through the portal from the
// request to the end. Each is compared with the same operation by libvirt alone in the same run.
func BenchmarkGuests(b *testing.B) {
	l := newGuestLab(b)
	b.ResetTimer()
	for range b.N {
		measureSnapshots(l)
		measureClones(l)
		measureBulkStarts(l)
	}
}

// measureSnapshots measures snapshots with memory of a guest of 256 MiB.
func measureSnapshots(l *guestLab) {
	l.Helper()
	page, err := l.api.VMs(l.Context(), fleet.Query{Filter: "name:hello"})
	if err != nil || len(page.Items) != 1 || page.Items[0].Spec.MemoryMiB != 256 {
		l.Fatalf("%+v, %v", page, err)
	}
	id := page.Items[0].ID
	l.poll("the guest's agent", func() bool {
		return exec.CommandContext(l.Context(), "virsh", "-c", l.uris[0], "qemu-agent-command", string(id), `{"execute":"guest-ping"}`).Run() == nil
	})
	dir := l.TempDir()
	var portal, plain durations
	for i := range guestSamples + 1 {
		began := time.Now()
		l.waitTask(callAPI[fleet.Task](l, http.MethodPost, "vms/"+string(id)+"/snapshots", map[string]any{"name": fmt.Sprintf("bench-%d", i), "memory": true}).ID)
		took := time.Since(began)
		tree := l.getVM(id).Status.Snapshots
		if tree == nil || len(tree.Snapshots) != 1 || !tree.Snapshots[0].Memory {
			l.Fatalf("%+v", tree)
		}
		l.waitTask(callAPI[fleet.Task](l, http.MethodDelete, "vms/"+string(id)+"/snapshots/"+string(tree.Snapshots[0].ID), nil).ID)

		memory, overlay := filepath.Join(dir, fmt.Sprintf("%d.mem", i)), filepath.Join(dir, fmt.Sprintf("%d.qcow2", i))
		began = time.Now()
		l.runCommand("virsh", "-q", "-c", l.uris[0], "snapshot-create-as", string(id), "plain", "--no-metadata", "--atomic", "--memspec", "file="+memory, "--diskspec", "vda,file="+overlay)
		other := time.Since(began)
		l.runCommand("virsh", "-q", "-c", l.uris[0], "blockcommit", string(id), "vda", "--active", "--pivot", "--wait")
		l.runCommand("rm", memory, overlay)
		l.poll("the host's report after the merge", func() bool {
			ok, _ := l.getVM(id).AllowsSnapshots(nil)
			return ok
		})
		if i > 0 { // the first round warms up the portal and libvirt
			portal, plain = append(portal, took), append(plain, other)
		}
	}
	portal.report(l.B, "snapshot")
	goals.Snapshot.Record(l, portal.percentile(0.5) <= plain.percentile(0.5)+100*time.Millisecond, fmt.Sprintf("%.0f ms", milliseconds(portal.percentile(0.5))), fmt.Sprintf("virsh snapshot-create-as: %.0f ms", milliseconds(plain.percentile(0.5))), portal.ratioTo(plain))
}

// measureClones measures linked clones of a template; every second clone is also started. The reference is qemu-img for
// the overlay, and libvirt for define and start.
func measureClones(l *guestLab) {
	l.Helper()
	host := l.hosts[0].ID
	hello, err := l.api.VMs(l.Context(), fleet.Query{Filter: "name:hello"})
	if err != nil || len(hello.Items) != 1 {
		l.Fatal(hello, err)
	}
	golden := l.createVM(control.CreateVM{Name: "golden", HostID: host, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, Disks: []fleet.Disk{{PoolID: hello.Items[0].Spec.Disks[0].PoolID, Image: hello.Items[0].Spec.Disks[0].Image}}}})
	l.waitPhase(golden, fleet.PhaseStopped)
	templateID := callAPI[template.View](l, http.MethodPost, "templates", map[string]any{"name": "bench", "vmId": golden}).ID
	l.poll("the template", func() bool {
		t := callAPI[template.View](l, http.MethodGet, "templates/"+string(templateID), nil)
		return len(t.Versions) == 1 && t.Versions[0].WhyUnusable() == ""
	})
	var ready, started, bare, plain durations
	for i := range guestSamples + 1 {
		began := time.Now()
		off := l.createVM(control.CreateVM{Name: fmt.Sprintf("off-%d", i), HostID: host, From: &control.VMSource{TemplateID: templateID}})
		l.waitPhase(off, fleet.PhaseStopped)
		tookOff := time.Since(began)
		began = time.Now()
		on := l.createVM(control.CreateVM{Name: fmt.Sprintf("on-%d", i), HostID: host, From: &control.VMSource{TemplateID: templateID}, Start: true})
		l.waitPhase(on, fleet.PhaseRunning)
		tookOn := time.Since(began)
		tookBare, tookPlain := copyGuest(l, on)
		for _, id := range []fleet.VMID{on, off} {
			task, err := l.api.DeleteVM(l.Context(), id, true, l.getVM(id).Name)
			if err != nil {
				l.Fatal(err)
			}
			l.waitTask(task.ID)
		}
		if i > 0 {
			ready, started, bare, plain = append(ready, tookOff), append(started, tookOn), append(bare, tookBare), append(plain, tookPlain)
		}
	}
	ready.report(l.B, "linked-clone")
	started.report(l.B, "from-image")
	goals.LinkedClone.Record(l, ready.percentile(0.5) <= 200*time.Millisecond, fmt.Sprintf("%.0f ms", milliseconds(ready.percentile(0.5))), fmt.Sprintf("qemu-img and plain libvirt's define: %.0f ms", milliseconds(bare.percentile(0.5))), ready.ratioTo(bare))
	goals.StartImage.Record(l, started.percentile(0.5) <= plain.percentile(0.5)+150*time.Millisecond, fmt.Sprintf("%.0f ms", milliseconds(started.percentile(0.5))), fmt.Sprintf("qemu-img and plain libvirt, the same XML: %.0f ms", milliseconds(plain.percentile(0.5))), started.ratioTo(plain))
}

var ownParts = regexp.MustCompile(`(?s)<metadata>.*?</metadata>|<uuid>.*?</uuid>|<mac address=[^>]*/>`)

// copyGuest creates a copy of a guest with qemu-img and libvirt. It returns the time until the copy is defined, and the
// time until it runs.
func copyGuest(l *guestLab, of fleet.VMID) (defined, started time.Duration) {
	l.Helper()
	text, err := l.plain[0].DomainGetXMLDesc(domainOf(l, 0, of), libvirt.DomainXMLInactive)
	if err != nil {
		l.Fatal(err)
	}
	disk := l.getVM(of).Status.Disks[0].Path
	var image struct {
		Backing string `json:"full-backing-filename"`
	}
	if err := json.Unmarshal([]byte(l.runCommand("qemu-img", "info", "-U", "--output=json", disk)), &image); err != nil {
		l.Fatal(err)
	}
	overlay := filepath.Join(l.TempDir(), "twin.qcow2")
	text = regexp.MustCompile(`<name>.*</name>`).ReplaceAllString(ownParts.ReplaceAllString(text, ""), "<name>twin-"+string(of)+"</name>")
	text = strings.ReplaceAll(text, disk, overlay)
	began := time.Now()
	l.runCommand("qemu-img", "create", "-q", "-f", "qcow2", "-b", image.Backing, "-F", "qcow2", overlay)
	domain, err := l.plain[0].DomainDefineXMLFlags(text, 0)
	if err != nil {
		l.Fatal(err)
	}
	defined = time.Since(began)
	if err := l.plain[0].DomainCreate(domain); err != nil {
		l.Fatal(err)
	}
	started = time.Since(began)
	if err := l.plain[0].DomainDestroy(domain); err != nil {
		l.Fatal(err)
	}
	if err := l.plain[0].DomainUndefineFlags(domain, libvirt.DomainUndefineNvram); err != nil {
		l.Fatal(err)
	}
	if err := os.Remove(overlay); err != nil {
		l.Fatal(err)
	}
	return defined, started
}

// measureBulkStarts measures the start of diskless guests on both hosts by one bulk action. The reference is a loop per
// host over libvirt, with the concurrency of the agents.
func measureBulkStarts(l *guestLab) {
	l.Helper()
	ids := make([]fleet.VMID, bulkGuests)
	for i := range ids {
		ids[i] = l.createVM(control.CreateVM{Name: fmt.Sprintf("bulk-%d", i), HostID: l.hosts[i%2].ID, Overcommit: true, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: bulkMemoryMiB, Firmware: fleet.BIOS}})
	}
	for _, id := range ids {
		l.waitPhase(id, fleet.PhaseStopped)
	}
	all := func(action fleet.Action) time.Duration {
		began := time.Now()
		l.waitTask(callAPI[fleet.Task](l, http.MethodPost, "vms/actions", map[string]any{"action": action, "ids": ids}).ID)
		return time.Since(began)
	}
	ours := all(fleet.ActStart)
	all(fleet.ActStop)
	theirs := l.startInLoops(ids)
	for _, id := range ids {
		l.waitPhase(id, fleet.PhaseRunning)
	}
	all(fleet.ActStop)
	l.ReportMetric(ours.Seconds(), "bulk-s")
	goals.BulkStart.Record(l, ours.Seconds() <= theirs.Seconds()*1.1, fmt.Sprintf("%.1f s", ours.Seconds()), fmt.Sprintf("loops over libvirt: %.1f s", theirs.Seconds()), ours.Seconds()/theirs.Seconds())
}

// startInLoops starts the VMs, which alternate between the two hosts, and returns how long that took. For each host, as
// many goroutines start VMs concurrently as in its agent.
func (l *guestLab) startInLoops(ids []fleet.VMID) time.Duration {
	l.Helper()
	queues := []chan libvirt.Domain{make(chan libvirt.Domain, len(ids)), make(chan libvirt.Domain, len(ids))}
	for i, id := range ids {
		queues[i%2] <- domainOf(l, i%2, id)
	}
	var calls []func()
	for host, queue := range queues {
		close(queue)
		for range bulkAtATime {
			c := dialLibvirt(l.B, l.uris[host])
			calls = append(calls, func() {
				for d := range queue {
					if err := c.DomainCreate(d); err != nil {
						l.Error(err)
					}
				}
			})
		}
	}
	var callers sync.WaitGroup
	began := time.Now()
	for _, call := range calls {
		callers.Go(call)
	}
	callers.Wait()
	return time.Since(began)
}
