package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/timeseries"
)

// addSample stores the newest sample of a host: the CPU use of its VMs.
func (r *hostFixture) addSample(host fleet.HostID, cpu map[fleet.VMID]float64) {
	r.t.Helper()
	in := fleet.Samples{Host: fleet.SampleTable{IDs: []string{""}, Values: map[string][]fleet.MetricValue{"cpu.user": {10}, "cpu.guest": {20}}}}
	in.VMs.Values = map[string][]fleet.MetricValue{}
	for id, v := range cpu {
		in.VMs.IDs = append(in.VMs.IDs, string(id))
		in.VMs.Values["cpu.usage"] = append(in.VMs.Values["cpu.usage"], fleet.MetricValue(v))
	}
	layout, row := timeseries.NewRow(host, in, func(timeseries.Object) bool { return true })
	text, hash, err := layout.Text()
	if err != nil {
		r.t.Fatal(err)
	}
	id := queryValue[int64](r, `INSERT INTO metric_layouts (host_id, hash, layout) VALUES ($1, $2, $3)
		ON CONFLICT (host_id, hash) DO UPDATE SET used_at = now() RETURNING id`, host, hash[:], string(text))
	r.execSQL(`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample) VALUES ($1, clock_timestamp(), 10, $2, $3)`, host, id, row)
}

// topCPU returns the actor's top consumers of CPU time, as "name value".
func (r *hostFixture) topCPU(a fleet.Actor) string {
	r.t.Helper()
	all, err := r.TopConsumers(r.t.Context(), a)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, c := range append(all[0].VMs, all[0].Hosts...) {
		out = append(out, fmt.Sprintf("%s %.0f", c.Name, c.Value))
	}
	return strings.Join(out, ", ")
}

func TestTopConsumers(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL, fresh_for = '1 minute'`)
	other := r.addHost("h2")
	host, cpu := r.agent.HostID, map[fleet.VMID]float64{}
	ids := map[string]fleet.VMID{}
	for i := range 7 {
		name := fmt.Sprintf("web-%d", i)
		ids[name] = r.addVM(name)
		cpu[ids[name]] = float64(10 * i)
	}
	if got := r.topCPU(chief); got != "" {
		t.Errorf("without samples: %s", got)
	}
	r.addSample(host, map[fleet.VMID]float64{ids["web-0"]: 99})
	r.addSample(host, cpu)
	if got, want := r.topCPU(chief), "web-6 60, web-5 50, web-4 40, web-3 30, web-2 20, h1 30"; got != want {
		t.Errorf("top consumers %q, want %q", got, want)
	}
	r.execSQL(`INSERT INTO projects (id, name) VALUES ('other', 'other')`)
	r.execSQL(`UPDATE vms SET project_id = 'other' WHERE id = ANY ($1)`, []fleet.VMID{ids["web-1"], ids["web-6"]})
	tenant := fleet.Actor{UserID: "tenant", Name: "tenant", Projects: map[fleet.ProjectID]fleet.Role{"other": fleet.RoleMember}}
	if got, want := r.topCPU(tenant), "web-6 60, web-1 10"; got != want {
		t.Errorf("a tenant's top consumers %q, want %q", got, want)
	}
	r.execSQL(`UPDATE vms SET host_id = $2 WHERE id = $1`, ids["web-6"], other.HostID)
	if got, want := r.topCPU(tenant), "web-1 10"; got != want {
		t.Errorf("after the VM left its host %q, want %q", got, want)
	}
	r.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
	if got := r.topCPU(chief); got != "" {
		t.Errorf("an offline host counts: %s", got)
	}
}
