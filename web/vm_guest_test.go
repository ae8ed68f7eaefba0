package web_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// A VM's page shows the guest agent's data and their age. Without data, it shows why and what to do. Actions that are
// not available show the reason.
func TestVMPageShowsGuestAgentData(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	shop := p.addProject("shop")
	host := p.addHost("host-1", 0)
	on := p.addVM(shop, host, "web", fleet.Running, func(vm *fleet.VM) {
		vm.Status.Guest = &fleet.GuestStatus{Agent: fleet.AgentAnswers, Version: "7.2.19", OS: "Debian <12>", Kernel: "6.1.0", Hostname: "inside"}
	})
	p.execSQL(`INSERT INTO vm_guests (vm_id, host_id, at, reading) VALUES ($1, $2, now() - interval '20 seconds', $3)`, on, host, fleet.GuestReading{
		ClockMs: 90_000, ClockBehind: true, Users: []fleet.GuestUser{{Name: "root"}, {Name: "ann", Domain: "CORP"}},
		FileSystems: []fleet.GuestFileSystem{{Path: "/srv", Type: "xfs", UsedBytes: 512 << 20, TotalBytes: 1 << 30}, {Path: "/old"}},
	})
	silent := p.addVM(shop, host, "silent", fleet.Running, func(vm *fleet.VM) { vm.Status.Guest = &fleet.GuestStatus{Agent: fleet.AgentNotResponding} })
	started := time.Now().Add(-time.Minute)
	booting := p.addVM(shop, host, "booting", fleet.Running, func(vm *fleet.VM) {
		vm.Status.Guest, vm.Status.StartedAt = &fleet.GuestStatus{Agent: fleet.AgentNotResponding}, &started
	})
	none := p.addVM(shop, host, "none", fleet.Running, func(vm *fleet.VM) { vm.Status.Guest = &fleet.GuestStatus{Agent: fleet.AgentNone} })
	off := p.addVM(shop, host, "off", fleet.Stopped)
	b := p.newSignedInBrowser("olga", fleet.RoleOperator)
	at := func(id fleet.VMID, below string) string { return "/vms/" + string(id) + below }
	b.get(at(on, "")).contains(t, "Debian &lt;12&gt;", "kernel 6.1.0", "version 7.2.19", "inside", `CORP\ann`, "1 min behind", "/srv", "512 MiB of 1 GiB", "The guest&#39;s file systems are not frozen.")
	b.get(at(silent, "")).contains(t, "Does not answer", "Install and start qemu-guest-agent in the guest.", "The guest agent does not answer.")
	early := b.get(at(booting, ""))
	early.contains(t, "No answer yet", "The guest is starting.")
	early.excludes(t, "Does not answer", "Install and start qemu-guest-agent in the guest. Without it")
	b.get(at(none, "")).contains(t, "No channel", "Enable the guest agent under Configure", "The VM has no channel for a guest agent.")
	stopped := b.get(at(off, ""))
	stopped.contains(t, "The VM is not running, so its guest agent is not running either.")
	stopped.excludes(t, "Guest agent</dt>")

	asked := func() int { return p.countRows("tasks WHERE kind LIKE 'vm.%'") }
	send := func(what, path string, form url.Values, want int, says string) {
		t.Helper()
		before := asked()
		a := b.post(path, form)
		a.requireStatus(t, want)
		if says != "" {
			a.contains(t, says)
		}
		a.excludes(t, "hush-hush")
		if did := asked() > before; did != (want == http.StatusSeeOther) {
			t.Errorf("%s: a job is queued: %t", what, did)
		}
	}
	freeze, password := "/guest/freeze", "/guest/guestpassword"
	b.get(at(on, freeze)).contains(t, `value="60"`)
	b.get(at(off, freeze)).contains(t, "not running")
	send("no number", at(on, freeze), url.Values{"seconds": {"soon"}}, http.StatusUnprocessableEntity, "whole number")
	send("nothing", at(on, freeze), url.Values{"seconds": {""}}, http.StatusUnprocessableEntity, "1 to 600")
	send("for an hour", at(on, freeze), url.Values{"seconds": {"3600"}}, http.StatusUnprocessableEntity, "1 to 600")
	send("of a VM that is off", at(off, freeze), url.Values{"seconds": {"5"}}, http.StatusConflict, "not running")
	send("for a while", at(on, freeze), url.Values{"seconds": {"5"}}, http.StatusSeeOther, "")
	send("no user", at(on, password), url.Values{"user": {"-rf"}, "password": {"hush-hush"}}, http.StatusUnprocessableEntity, "letters, digits")
	send("two lines", at(on, password), url.Values{"user": {"ann"}, "password": {"hush-hush\nx"}}, http.StatusUnprocessableEntity, `value="ann"`)
	send("a password", at(on, password), url.Values{"user": {"ann"}, "password": {"hush-hush"}}, http.StatusSeeOther, "")
	send("a second one", at(on, password), url.Values{"user": {"ann"}, "password": {"hush-hush"}}, http.StatusConflict, "Another password")
	send("trim", at(on, "/guest"), url.Values{"action": {"trim"}}, http.StatusSeeOther, "")
	send("an action of VMs", at(on, "/guest"), url.Values{"action": {"stop"}}, http.StatusUnprocessableEntity, "")
	events := b.get(at(on, "?tab=events"))
	events.contains(t, "Set a user&#39;s password", "Trim file systems")
	events.excludes(t, "hush-hush")
}

// The page of a locked VM shows who locked the VM and why. The page of an expiring VM shows the date and how to extend
// it.
func TestVMPageShowsProtection(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	shop := p.addProject("shop")
	vm := p.addVM(shop, p.addHost("host-1", 0), "web", fleet.Running)
	page := "/vms/" + string(vm)
	mia, other := p.newTenantBrowser("mia", shop), p.newTenantBrowser("max", shop)
	mia.get(page+"/protection").contains(t, "Protect from deletion", `name="reason"`, `type="datetime-local"`)
	mia.post(page+"/protection", url.Values{"locked": {"yes"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Give the reason for the lock", "checked")
	mia.post(page+"/protection", url.Values{"expiresAt": {"tomorrow"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Give a time in UTC", `value="tomorrow"`)
	mia.post(page+"/protection", url.Values{"expiresAt": {"2001-01-01T00:00"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Choose a future time within 20 years.")
	soon := time.Now().UTC().Add(48 * time.Hour)
	mia.post(page+"/protection", url.Values{
		"protected": {"yes"}, "locked": {"yes"}, "reason": {"the <audit>"}, "expiresAt": {soon.Format("2006-01-02T15:04")}, "expiryStops": {"yes"},
	}).requireStatus(t, http.StatusSeeOther)
	expires := "Expires " + soon.Format("2 January 2006, 15:04 UTC") + ", then shuts down"
	own := mia.get(page)
	own.contains(t, "Locked by mia.", "the &lt;audit&gt;", "Protected from deletion", expires, "Renew…")
	own.excludes(t, "mia has locked the VM")
	other.get(page).contains(t, "Locked by mia.", "mia has locked the VM: the &lt;audit&gt;.")
	other.post(page+"/actions", url.Values{"action": {"stop"}}).requireStatus(t, http.StatusConflict).contains(t, "mia has locked the VM")
	other.post(page+"/protection", url.Values{}).requireStatus(t, http.StatusConflict).contains(t, "mia has locked the VM")
	mia.get(page+"/protection").contains(t, `value="the &lt;audit&gt;"`, `value="`+soon.Format("2006-01-02T15:04")+`"`)
	mia.post(page+"/delete", url.Values{"disks": {"keep"}}).requireStatus(t, http.StatusConflict).contains(t, "protected from deletion")
	mia.post(page+"/protection", url.Values{}).requireStatus(t, http.StatusSeeOther)
	other.post(page+"/actions", url.Values{"action": {"stop"}}).requireStatus(t, http.StatusSeeOther)
}
