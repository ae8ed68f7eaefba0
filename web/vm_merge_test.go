package web_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

var inputs = regexp.MustCompile(`<(?:input|textarea|select)[^>]* name="([^"]+)"[^>]*>`)

var valueOf = regexp.MustCompile(` value="([^"]*)"`)

// sentBy returns the input fields of the form with that id, as a browser sends them. It omits selects and text areas.
func sentBy(a answer, id string) url.Values {
	_, form, _ := strings.Cut(a.body, `id="`+id+`"`)
	form, _, _ = strings.Cut(form, "</form>")
	out := url.Values{}
	for _, m := range inputs.FindAllStringSubmatch(form, -1) {
		if strings.Contains(m[0], "<input") && (!strings.Contains(m[0], `type="radio"`) || strings.Contains(m[0], " checked")) && !strings.Contains(m[0], `type="checkbox"`) {
			v := valueOf.FindStringSubmatch(m[0])
			if v == nil {
				v = []string{"", ""}
			}
			out.Add(html.UnescapeString(m[1]), html.UnescapeString(v[1]))
		}
	}
	return out
}

// Two users edit one VM at the same time. The second user to save sees both changes and chooses between them.
func TestConcurrentEditsMerged(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	first, second := p.signedIn("mara", fleet.RoleAdmin), p.signedIn("nils", fleet.RoleOperator)
	path := "/vms/" + string(vms["web-02"])
	form := func(b *browser) url.Values {
		sent := sentBy(b.get(path+"?tab=configure").is(t, http.StatusOK), "vm-edit")
		sent.Set("spec.memoryMiB", sent.Get("spec.memoryMiB"))
		sent["spec.memoryMiB"] = []string{sent.Get("spec.memoryMiB"), "GiB"}
		sent.Set("spec.firmware", "bios")
		sent.Set("labels", "")
		for name := range sent {
			if strings.Contains(name, "__i__") {
				sent.Del(name)
			}
		}
		sent.Set("spec.nics[0].network", "libvirt:default")
		return sent
	}
	mara, nils := form(first), form(second)
	mara.Set("spec.cpus", "8")
	mara.Set("labels", "env=test")
	first.post(path+"/edit", mara).is(t, http.StatusSeeOther)

	nils.Set("spec.cpus", "4")
	nils.Set("spec.memoryMiB", "6")
	nils["spec.memoryMiB"] = []string{"6", "GiB"}
	both := second.post(path+"/edit", nils).is(t, http.StatusConflict)
	both.has(t, "This VM was changed while you edited it.", "mara saved first.", "changed by both", "4 vCPUs", "8 vCPUs", "6144 MiB", "env=test")
	both.lacks(t, ">NICs<", ">Disks<")

	chosen := sentBy(both, "vm-edit")
	if chosen.Has("take.cpus") || chosen.Get("take.memoryMiB") != "mine" || chosen.Get("take.labels") != "theirs" {
		t.Fatalf("the preselected choices are %v", chosen)
	}
	second.post(path+"/edit", chosen).is(t, http.StatusUnprocessableEntity).has(t, "Choose whose value of vcpus to keep")
	chosen.Set("take.cpus", "mine")
	second.post(path+"/edit", chosen).is(t, http.StatusSeeOther)
	second.get(path+"?tab=configure").is(t, http.StatusOK).has(t, `name="spec.cpus" type="text" value="4"`, "env=test", `value="6"`)

	// The same form sent again conflicts with the VM as the previous submission left it.
	second.post(path+"/edit", chosen).is(t, http.StatusConflict).has(t, "This VM was changed while you edited it.")
	chosen.Set("was", "{nonsense")
	second.post(path+"/edit", chosen).is(t, http.StatusBadRequest)
}

func TestVMsComparedFieldByField(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	at := "/vms/compare?id=" + string(vms["web-01"])
	b.get(at).is(t, http.StatusOK).has(t, "web-02 · shop")
	b.get(at).lacks(t, "Compared fields")
	a := b.get(at+"&id="+string(vms["mail"])).is(t, http.StatusOK)
	a.has(t, "web-01", "mail", "env=prod", "8192 MiB", "Show all fields")
	a.lacks(t, "Boot menu")
	b.get(at+"&with="+string(vms["mail"])+"&all=1").is(t, http.StatusOK).has(t, "Boot menu", "the same", "Show differences only")
	b.get("/vms/"+string(vms["web-01"])).has(t, "Compare…")
	for address, status := range map[string]int{
		"/vms/compare":             http.StatusBadRequest,
		at + "&id=a&id=b":          http.StatusBadRequest,
		at + "&with=nonsense":      http.StatusNotFound,
		"/vms/compare?id=nonsense": http.StatusNotFound,
	} {
		b.get(address).is(t, status)
	}

	// A user who may not see one of the VMs gets no information about that VM.
	blue := p.addProject("blue")
	own := p.addVM(blue, p.addHost("host-7", 0), "own", fleet.Stopped)
	sam := p.tenant("sam", blue)
	sam.get("/vms/compare?id="+string(own)).is(t, http.StatusOK).lacks(t, "web-01", "host-7")
	sam.get("/vms/compare?id="+string(own)+"&with="+string(vms["web-01"])).is(t, http.StatusNotFound).lacks(t, "web-01")
	sam.get(at).is(t, http.StatusNotFound)
}

func TestPendingRestartChangesListed(t *testing.T) {
	p, _, _, _ := newFleetPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	a := b.get("/vms?tab=restart").is(t, http.StatusOK)
	a.has(t, ">mail<", "Restart pending", ">memory<")
	if strings.Contains(a.main(), ">web-01<") {
		t.Error("web-01 is listed although it has no pending changes")
	}
}
