package web_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

var pictureMarkup = regexp.MustCompile(`(?s)<svg class="pic.*?</svg>\s*</div>`)

// topologyPicture returns the page's only SVG. It fails unless the SVG is well-formed and has a title for each link.
// The SVG must be hidden from screen readers and the keyboard, because the page has the same data as a list.
func topologyPicture(t *testing.T, a answer) string {
	t.Helper()
	all := pictureMarkup.FindAllString(a.body, -1)
	if len(all) != 1 {
		t.Fatalf("%d pictures: %s", len(all), a.pageContent())
	}
	svg := strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(all[0]), "</div>")), "\n")
	d := xml.NewDecoder(strings.NewReader(svg))
	links, titles := 0, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is not well-formed XML: %v in %s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "title":
				titles++
			case "a":
				links++
				if !strings.Contains(svg, `tabindex="-1"`) {
					t.Error("a link in the picture has the keyboard focus")
				}
			}
		}
	}
	if links == 0 || titles < links || !strings.Contains(svg, `aria-hidden="true"`) {
		t.Errorf("%d links, %d titles in %s", links, titles, svg)
	}
	return svg
}

// setReportedNICs makes host h report these physical NICs, and the bridge of the network "default".
func (p *portal) setReportedNICs(h fleet.HostID, nics ...fleet.HostNIC) {
	p.t.Helper()
	p.execSQL(`UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,nics}', $2), '{inventory,nicsLooked}', 'true') WHERE id = $1`, h, mustJSON(nics))
}

func physicalNICs(up bool) []fleet.HostNIC {
	return []fleet.HostNIC{
		{Name: "br0", Kind: "bridge", Up: up}, {Name: "eth0", Kind: "physical", Up: up, SpeedMbps: 25000, Master: "br0"}, {Name: "virbr0", Kind: "bridge"},
	}
}

func TestHostTopologyShowsDevicesAndFaults(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	h := p.addHost("host-1", 0)
	path := "/hosts/" + string(h) + "?tab=topology"
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "Nothing to draw yet")
	p.addNetwork("default", h)
	p.addNetwork("br0", h)
	p.execSQL(`UPDATE networks SET kind = 'bridge' WHERE name = 'br0'`)
	p.execSQL(`UPDATE assignments SET status = '{"active": true}' WHERE network_id = (SELECT id FROM networks WHERE name = 'br0')`)
	p.setReportedNICs(h, physicalNICs(true)...)
	shop := p.addProject("shop")
	web := p.addVM(shop, h, "web-01", fleet.Running)
	a := b.get(path).requireStatus(t, http.StatusOK)
	svg := topologyPicture(t, a)
	for _, want := range []string{"eth0", "25 Gbit/s", "virbr0", "192.168.122.0/24", `href="/vms/` + string(web) + `"`, "Running · 10.4.0.11", "NIC 52:54:00:3a:01:11 on default"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %q: %s", want, svg)
		}
	}
	a.contains(t, "As a list", "<td class=\"wrap\">virbr0</td>", "NIC")
	a.excludes(t, "attention.")

	// Each fault is listed above the picture with a link, and marked in the picture.
	p.setReportedNICs(h, physicalNICs(false)[:2]...)
	a = b.get(path).requireStatus(t, http.StatusOK)
	a.contains(t, "2 objects need attention.", "eth0 has no link, so devices connected through it have no network.", "default is active, but its bridge virbr0 does not exist")
	if svg := topologyPicture(t, a); !strings.Contains(svg, "#triangle-alert") || !strings.Contains(svg, `class="l bad"`) {
		t.Errorf("the picture marks no fault: %s", svg)
	}
	p.setReportedNICs(h, physicalNICs(true)...)
	p.addVM(shop, h, "lost", fleet.Running, func(vm *fleet.VM) { vm.Status.NICs[0].Source = "bridge br7" })
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "1 object needs attention.", "host-1 has no bridge br7, and VMs have NICs on it.", "lost: NIC 52:54:00:3a:01:12 is on bridge br7, which host-1 does not have")

	// For an offline host, the picture shows the values of the last report as unknown, not as faults.
	p.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '5 minutes'`)
	a = b.get(path).requireStatus(t, http.StatusOK)
	a.excludes(t, "attention.")
	if svg := topologyPicture(t, a); !strings.Contains(svg, `class="l unknown"`) || strings.Contains(svg, `class="l ok"`) || strings.Contains(svg, `class="ok"`) {
		t.Errorf("the picture of an offline host is %s", svg)
	}
	p.newSignedInBrowser("vera", fleet.RoleViewer).get(path).requireStatus(t, http.StatusOK).contains(t, "web-01")
	p.newTenantBrowser("mia", shop).get(path).requireStatus(t, http.StatusForbidden)
}

func TestNetworkTopologyHidesHostsFromMembers(t *testing.T) {
	p, path, hosts := newNetworkPortal(t)
	p.execSQL(`UPDATE assignments SET status = status || '{"bridge": "br0"}'`)
	p.setReportedNICs(hosts[0], physicalNICs(true)...)
	p.setReportedNICs(hosts[1], physicalNICs(true)...)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get(path+"?tab=topology").requireStatus(t, http.StatusOK)
	a.contains(t, "2 objects need attention.", "dnsmasq is not running for it.", "The network was stopped on the host outside Quantix.")
	svg := topologyPicture(t, a)
	for _, want := range []string{"host-1", "host-2", "host-3", "eth0", "web-1", "web-2", `href="/hosts/` + string(hosts[1]) + `?tab=topology"`, `class="mine"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %q: %s", want, svg)
		}
	}
	p.setReportedNICs(hosts[0], physicalNICs(true)[1:]...)
	b.get(path+"?tab=topology").requireStatus(t, http.StatusOK).contains(t, "3 objects need attention.", "but its bridge br0 does not exist")

	// Members of a project see their VMs, but no hosts.
	p.addVM(p.addProject("other"), hosts[0], "secret-1", fleet.Running, func(vm *fleet.VM) {
		vm.Spec.NICs[0].NetworkID = fleet.NetworkID(strings.TrimPrefix(path, "/networks/"))
	})
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects WHERE name = 'shop'")
	a = tom.get(path+"?tab=topology").requireStatus(t, http.StatusOK)
	a.contains(t, "web-1", "web-2")
	a.excludes(t, "host-", "eth0", "br0", "dnsmasq", "secret-1", "attention.")
}

func TestFleetTopologyShowsStatusPerHost(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/networks/topology").requireStatus(t, http.StatusOK).contains(t, "No hosts yet")
	h1, h2, h3 := p.addHost("host-1", 0), p.addHost("host-2", 0), p.addHost("host-3", time.Hour)
	b.get("/networks/topology").requireStatus(t, http.StatusOK).contains(t, "No networks yet")
	p.addNetwork("default", h1, h2, h3)
	p.addNetwork("lab", h1)
	p.execSQL(`UPDATE assignments SET status = '{"active": true, "error": "no dnsmasq"}' WHERE host_id = $1`, h2)
	p.setReportedNICs(h2, physicalNICs(false)...)
	a := b.get("/networks/topology").requireStatus(t, http.StatusOK)
	svg := topologyPicture(t, a)
	for _, want := range []string{"default on host-1: active", "lab on host-1: active", "default on host-2: failed", "default on host-3: unknown", "default: healthy on 1 of 3 hosts, failed on 1", "1 device without link"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %q: %s", want, svg)
		}
	}
	a.contains(t, "default (failed)", "default (unknown)", "default, lab", `href="/hosts/`+string(h1)+`?tab=topology"`)
	a = b.get("/networks/topology?filter="+url.QueryEscape("name:host-3")).requireStatus(t, http.StatusOK)
	if svg := topologyPicture(t, a); strings.Contains(svg, "host-1") || !strings.Contains(svg, "host-3") {
		t.Errorf("filtered by one host: %s", svg)
	}
	b.get("/networks/topology?filter=name:nobody").requireStatus(t, http.StatusOK).contains(t, "No host matches")
	b.get("/networks/topology?filter=x:y").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "filter-error")
	b.get("/networks/topology?networks=nonsense").requireStatus(t, http.StatusBadRequest)
	b.get("/networks").requireStatus(t, http.StatusOK).contains(t, `href="/networks/topology"`)
	tenant := p.newTenantBrowser("mia", p.addProject("shop"))
	tenant.get("/networks").requireStatus(t, http.StatusOK).excludes(t, "/networks/topology")
	tenant.get("/networks/topology").requireStatus(t, http.StatusForbidden)
}
