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

var inputElement = regexp.MustCompile(`<(?:input|textarea|select)[^>]* name="([^"]+)"[^>]*>`)

var valueAttribute = regexp.MustCompile(` value="([^"]*)"`)

// fieldsSentBy returns the input fields of the form with that id, as a browser sends them. It omits selects and text
// areas.
func fieldsSentBy(a answer, id string) url.Values {
	_, form, _ := strings.Cut(a.body, `id="`+id+`"`)
	form, _, _ = strings.Cut(form, "</form>")
	out := url.Values{}
	for _, m := range inputElement.FindAllStringSubmatch(form, -1) {
		if strings.Contains(m[0], "<input") && (!strings.Contains(m[0], `type="radio"`) || strings.Contains(m[0], " checked")) && !strings.Contains(m[0], `type="checkbox"`) {
			v := valueAttribute.FindStringSubmatch(m[0])
			if v == nil {
				v = []string{"", ""}
			}
			out.Add(html.UnescapeString(m[1]), html.UnescapeString(v[1]))
		}
	}
	return out
}

// Two users edit one VM at the same time. The second user to save sees both changes and chooses a value for each field.
func TestConcurrentEditsMerged(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	first, second := p.newSignedInBrowser("mara", fleet.RoleAdmin), p.newSignedInBrowser("nils", fleet.RoleOperator)
	path := "/vms/" + string(vms["web-02"])
	form := func(b *browser) url.Values {
		sent := fieldsSentBy(b.get(path+"?tab=configure").requireStatus(t, http.StatusOK), "vm-edit")
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
	first.post(path+"/edit", mara).requireStatus(t, http.StatusSeeOther)

	nils.Set("spec.cpus", "4")
	nils.Set("spec.memoryMiB", "6")
	nils["spec.memoryMiB"] = []string{"6", "GiB"}
	both := second.post(path+"/edit", nils).requireStatus(t, http.StatusConflict)
	both.contains(t, "This VM was changed while you edited it.", "mara saved first.", "changed by both", "4 vCPUs", "8 vCPUs", "6144 MiB", "env=test")
	both.excludes(t, ">NICs<", ">Disks<")

	chosen := fieldsSentBy(both, "vm-edit")
	if chosen.Has("take.cpus") || chosen.Get("take.memoryMiB") != "mine" || chosen.Get("take.labels") != "theirs" {
		t.Fatalf("the preselected choices are %v", chosen)
	}
	second.post(path+"/edit", chosen).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Choose whose value of vcpus to keep")
	chosen.Set("take.cpus", "mine")
	second.post(path+"/edit", chosen).requireStatus(t, http.StatusSeeOther)
	second.get(path+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, `name="spec.cpus" type="text" value="4"`, "env=test", `value="6"`)

	// The same form is sent again. It conflicts, because the first submission has changed the VM.
	second.post(path+"/edit", chosen).requireStatus(t, http.StatusConflict).contains(t, "This VM was changed while you edited it.")
	chosen.Set("was", "{nonsense")
	second.post(path+"/edit", chosen).requireStatus(t, http.StatusBadRequest)
}

func TestVMsComparedFieldByField(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	at := "/vms/compare?id=" + string(vms["web-01"])
	b.get(at).requireStatus(t, http.StatusOK).contains(t, "web-02 · shop")
	b.get(at).excludes(t, "Compared fields")
	a := b.get(at+"&id="+string(vms["mail"])).requireStatus(t, http.StatusOK)
	a.contains(t, "web-01", "mail", "env=prod", "8192 MiB", "Show all fields")
	a.excludes(t, "Boot menu")
	b.get(at+"&with="+string(vms["mail"])+"&all=1").requireStatus(t, http.StatusOK).contains(t, "Boot menu", "the same", "Show differences only")
	b.get("/vms/"+string(vms["web-01"])).contains(t, "Compare…")
	for address, status := range map[string]int{
		"/vms/compare":             http.StatusBadRequest,
		at + "&id=a&id=b":          http.StatusBadRequest,
		at + "&with=nonsense":      http.StatusNotFound,
		"/vms/compare?id=nonsense": http.StatusNotFound,
	} {
		b.get(address).requireStatus(t, status)
	}

	// A user who may not see one of the VMs gets no information about that VM.
	blue := p.addProject("blue")
	own := p.addVM(blue, p.addHost("host-7", 0), "own", fleet.Stopped)
	sam := p.newTenantBrowser("sam", blue)
	sam.get("/vms/compare?id="+string(own)).requireStatus(t, http.StatusOK).excludes(t, "web-01", "host-7")
	sam.get("/vms/compare?id="+string(own)+"&with="+string(vms["web-01"])).requireStatus(t, http.StatusNotFound).excludes(t, "web-01")
	sam.get(at).requireStatus(t, http.StatusNotFound)
}

func TestPendingRestartChangesListed(t *testing.T) {
	p, _, _, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get("/vms?tab=restart").requireStatus(t, http.StatusOK)
	a.contains(t, ">mail<", "Restart pending", ">memory<")
	if strings.Contains(a.pageContent(), ">web-01<") {
		t.Error("web-01 is listed although it has no pending changes")
	}
}
