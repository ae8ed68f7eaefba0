//go:build linux && ordeal

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// tenants is an empty portal with a real host, and the tabs of three users: an administrator, and one member each of the
// projects florist and bank.
type tenants struct {
	*faultRig
	admin, maria, ivan *tab
}

// TestTenantsServeThemselvesWithinQuota does on the pages what an administrator and two tenants do with a new portal: the
// administrator publishes storage and a network to one of two projects and sets a quota. A tenant creates a VM, uses its
// console, meets the quota, requests more, and gets it. She deletes a VM and restores it from the recycle bin. The other
// tenant sees none of this.
func TestTenantsServeThemselvesWithinQuota(t *testing.T) {
	t.Parallel()
	r := newTenants(t)
	r.addProjects()
	r.publish()
	r.limit()
	vm := r.createFirstVM()
	r.requestMore()
	r.approve()
	second := r.createSecondVM()
	r.recycle(second)
	r.checkHidden(vm)
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &tenants{faultRig: newRigWithoutHost(t, "tenants-1", 31)}
	dir := filepath.Join(r.dir, "pool")
	r.extra = []string{"--pool-roots", dir}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", guest.Disk, filepath.Join(dir, "tiny-guest.qcow2")).CombinedOutput(); err != nil {
		t.Fatalf("copy the image: %v: %s", err, out)
	}
	r.joinHost() // signs in once and changes the one-time password
	r.admin = newTab(t, r.url)
	r.admin.open("/sign-in")
	r.admin.enterCredentials("admin", r.password)
	r.admin.waitPath("/")
	return r
}

// addProjects creates the projects and their members, and signs the members in.
func (r *tenants) addProjects() {
	r.t.Helper()
	p := r.admin
	passwords := map[string]string{}
	for _, user := range []string{"maria", "ivan"} {
		p.open("/users/new")
		p.fillInput("#name", user)
		p.click("button.primary", "Create user")
		p.waitText("#user-form", user+" can sign in")
		passwords[user] = strings.TrimSpace(p.visibleText("#one-time"))
	}
	for user, project := range map[string]string{"maria": "florist", "ivan": "bank"} {
		p.open("/projects/new")
		p.fillInput("#name", project)
		p.click("button.primary", "Create project")
		p.waitText("h1", project)
		p.chooseOption("select[name=user]", user)
		p.click("button.primary", "Add")
		p.waitText("#members table", user)
	}
	r.maria, r.ivan = r.signInTenant("maria", passwords["maria"]), r.signInTenant("ivan", passwords["ivan"])
}

func (r *tenants) signInTenant(name, password string) *tab {
	r.t.Helper()
	p := newTab(r.t, r.url)
	p.open("/sign-in")
	p.enterCredentials(name, password)
	p.waitPath("/account/password")
	p.fillInput("#old", password)
	p.fillInput("#new", newPassword)
	p.fillInput("#again", newPassword)
	p.click("button.primary", "Change password")
	p.waitPath("/")
	return p
}

// publish creates a pool with the guest's image, and publishes the pool, the image and a network to the project florist.
func (r *tenants) publish() {
	r.t.Helper()
	p := r.admin
	p.open("/pools/new")
	p.fillInput("#name", "meadow")
	p.fillInput("#path", filepath.Join(r.dir, "pool"))
	p.click("label", r.name)
	p.click("button.primary", "Create pool")
	p.waitPath("/pools/")
	p.waitText("h1", "meadow")
	p.waitText("table.matrix", "Active")
	pool := p.path()
	p.publishTo(pool, "florist")
	p.open(pool + "?tab=volumes")
	p.pickMenuItem("tbody summary", "", "Publish to tenants")
	p.waitText("tbody", "Published")
	p.open("/networks")
	p.click("main th a", "default")
	p.waitPath("/networks/")
	p.publishTo(p.path(), "florist")
}

// publishTo publishes a pool or network to the project on its tab.
func (p *tab) publishTo(object, project string) {
	p.Helper()
	p.open(object + "?tab=grants")
	p.chooseOption("#grants select[name=project]", project)
	p.click("#grants button.primary", "Publish")
	p.waitText("#grants table", project)
}

// limit gives the project florist a quota for one VM.
func (r *tenants) limit() {
	r.t.Helper()
	p := r.admin
	p.open("/projects")
	p.click("main th a", "florist")
	p.waitPath("/projects/")
	project := p.path()
	p.open(project + "/quota")
	p.fillInput("[name='vms.hard']", "1")
	p.click("button.primary", "Save")
	p.waitText("main", "0 of 1")
}

// createFirstVM creates a VM as maria and uses its console.
func (r *tenants) createFirstVM() fleet.VMID {
	r.t.Helper()
	p := r.maria
	p.fillVM("tulip-1")
	p.waitText("#vm-summary-body", "1 of 1")
	p.click("footer button.primary", "Create VM")
	p.waitTrue("the VM's page", `/^\/vms\/[0-9a-f-]{36}$/.test(location.pathname)`)
	id := fleet.VMID(strings.TrimPrefix(p.path(), "/vms/"))
	p.waitWithin(guestLimit, ".head", "Running")
	p.click(".head nav.tabs a", "Console")
	p.waitPath("/vms/" + string(id) + "/console") // opens the page again if a new network device cut its requests
	p.waitTrue("the console's connection", `document.querySelector("#console").dataset.state === "connected"`)
	p.waitTrue("the console's picture", drawnPixels+" > 0")
	return id
}

// fillVM fills the form of a new VM with the tiny guest's image.
func (p *tab) fillVM(name string) {
	p.Helper()
	p.open("/vms/new")
	p.fillInput("#name", name)
	p.chooseOption("#spec-firmware", "BIOS")
	p.fillInput("#spec-cpus", "1")
	p.fillInput("#spec-memoryMiB", "192")
	p.chooseOption("#spec-memoryMiB-unit", "MiB")
	p.chooseOption("select[name='spec.disks[0].source']", "Copy of an image")
	p.chooseOption("select[name='spec.disks[0].image']", "tiny-guest.qcow2")
	p.chooseOption("select[name='spec.disks[0].poolId']", "meadow")
	p.fillInput("input[name='spec.disks[0].sizeBytes']", "")
	if on, err := evalJS[bool](p, `document.querySelector("#start").checked`); err == nil && !on {
		p.click("label", "Power on after creation")
	}
}

// requestMore meets the quota with a second VM and requests more.
func (r *tenants) requestMore() {
	r.t.Helper()
	p := r.maria
	p.allowFaults("422")
	p.fillVM("tulip-2")
	p.click("footer button.primary", "Create VM")
	p.waitText("main form", "This project uses 1 of 1 VMs, and one more is asked for.")
	p.click("#approval a", "Request more quota")
	p.waitText("dialog[open]", "New request for florist")
	p.fillInput("dialog [name='limits.vms']", "2")
	p.fillInput("dialog [name=reason]", "A second tulip for the spring.")
	p.click("dialog button.primary", "Send request")
	p.waitPath("/requests/")
	p.open("/requests")
	p.waitText("main table", "2 VMs")
	p.waitText("main table", "Open")
}

// approve approves the request as the administrator, with two clicks.
func (r *tenants) approve() {
	r.t.Helper()
	p := r.admin
	p.open("/")
	p.click("table.attention a", "2 VMs")
	p.waitText("dialog[open]", "A second tulip for the spring.")
	p.click("dialog button.primary", "Approve")
	p.waitNoText("main", "2 VMs")
	r.maria.waitText("main table", "Approved") // without a reload
}

func (r *tenants) createSecondVM() fleet.VMID {
	r.t.Helper()
	p := r.maria
	p.fillVM("tulip-2")
	p.waitText("#vm-summary-body", "2 of 2")
	p.click("footer button.primary", "Create VM")
	p.waitTrue("the VM's page", `/^\/vms\/[0-9a-f-]{36}$/.test(location.pathname)`)
	p.waitWithin(guestLimit, ".head", "Running")
	return fleet.VMID(strings.TrimPrefix(p.path(), "/vms/"))
}

// recycle deletes the VM, restores it from the recycle bin with the same disk, and purges it.
func (r *tenants) recycle(id fleet.VMID) {
	r.t.Helper()
	p := r.maria
	disk := r.api().getVM(r.t, id).Status.Disks[0].Path
	before, err := os.Stat(disk)
	if err != nil {
		r.t.Fatal(err)
	}
	p.deleteTulip(id)
	p.open("/vms")
	p.waitText("main table", "tulip-1")
	p.waitNoText("main table", "tulip-2")
	p.open("/recycle-bin")
	p.waitText("main table", "tulip-2")
	if names := r.virsh("list", "--all", "--uuid"); !strings.Contains(names, string(id)) {
		r.t.Errorf("the host has the domains %q without that of the VM in the recycle bin", names)
	}
	p.open("/recycle-bin/" + string(id))
	p.click("button, a", "Restore")
	p.waitText("dialog[open]", "Restore tulip-2")
	p.click("dialog button.primary", "Restore VM")
	p.waitPath("/vms/" + string(id))
	if after, err := os.Stat(disk); err != nil || !os.SameFile(before, after) {
		r.t.Errorf("the disk of the restored VM: %v", err)
	}
	p.waitWithin(guestLimit, ".head", "Stopped")
	p.click(".head button", "Start")
	p.waitWithin(guestLimit, ".head", "Running")

	p.deleteTulip(id)
	p.open("/recycle-bin/" + string(id))
	p.waitWithin(guestLimit, "main", "Powered off") // without a reload
	p.click("button, a", "Purge")
	p.waitText("dialog[open]", "Purge tulip-2?")
	p.fillInput("dialog #confirm", "tulip-2")
	p.click("dialog button.danger", "Purge VM and disks")
	eventually(r.t, stepLimit, "the end of the disk's file and of the domain", func() (bool, string) {
		_, err := os.Stat(disk)
		names := r.virsh("list", "--all", "--uuid")
		return os.IsNotExist(err) && !strings.Contains(names, string(id)), names
	})
}

// deleteTulip moves the VM tulip-2 to the recycle bin.
func (p *tab) deleteTulip(id fleet.VMID) {
	p.Helper()
	p.open("/vms/" + string(id))
	p.pickMenuItem(".head summary", "Actions", "Delete")
	p.waitText("#dialog", "tulip-2")
	p.click("#dialog label", "Delete disks")
	p.fillInput("#dialog #confirm", "tulip-2")
	p.click("#dialog button.danger", "Move to recycle bin")
	p.waitTrue("the list of VMs", `location.pathname === "/vms"`)
}

func (r *tenants) virsh(args ...string) string {
	r.t.Helper()
	out, err := r.host.Command(r.t.Context(), "virsh", append([]string{"-q"}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("virsh %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkHidden checks that ivan sees nothing of the project florist.
func (r *tenants) checkHidden(id fleet.VMID) {
	r.t.Helper()
	p := r.ivan
	for _, path := range []string{"/", "/vms", "/pools", "/networks", "/images", "/projects", "/tasks", "/search?q=tulip"} {
		p.open(path)
		for _, secret := range []string{"tulip-1", "florist", "meadow", r.name, string(id)} {
			if shown := p.visibleText("body"); strings.Contains(shown, secret) {
				r.t.Errorf("%s shows %q to a member of another project:\n%s", path, secret, shown)
			}
		}
	}
	p.allowFaults("404")
	p.open("/vms/" + string(id))
	p.waitText("main", "no such VM")
}
