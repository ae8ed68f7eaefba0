//go:build linux

package e2e

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/mockbmc"
)

// demoShots returns the shots of the demo's pages.
func demoShots(t *testing.T, a api) []pageShot {
	t.Helper()
	running := findByName[fleet.VMView](t, a, "vms", "web-01")
	failed := findByName[fleet.VMView](t, a, "vms", "fail-start-kiosk")
	host, pool, broken := a.hostByName(t, "host-1"), a.poolByName(t, "shared"), a.poolByName(t, "archive")
	net, lan, down := findByName[fleet.NetworkView](t, a, "networks", "default"), findByName[fleet.NetworkView](t, a, "networks", "office"), findByName[fleet.NetworkView](t, a, "networks", "no-dnsmasq-lab")
	over := findByName[fleet.NetworkView](t, a, "networks", "tenants")
	user := listFirstPage[fleet.User](t, a, "/api/v1/users")[0]
	vm, h, pl := "/vms/"+string(running.ID), "/hosts/"+string(host.ID), "/pools/"+string(pool.ID)
	shop := string(a.projectByName(t, "shop").ID)
	of := "?volume=" + a.unusedVolume(t, pool, "archive-2019.raw")
	project, u := "/projects/"+shop, "/users/"+string(user.ID)
	local := "/pools/" + string(a.poolByName(t, "local-nvme").ID)
	for _, name := range []string{"host-1", "host-2"} {
		requestJSON[any](t, a, http.StatusOK, http.MethodPatch, "/api/v1/hosts/"+string(a.hostByName(t, name).ID), map[string]any{"spec": map[string]any{"labels": map[string]string{"rack": "r1"}}})
	}
	for _, command := range []string{"/diagnostics", "/agent-log"} {
		task := requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1"+h+command, map[string]any{})
		a.waitTask(t, task, fleet.JobDone)
	}
	archive := requestJSON[struct{ Items []struct{ ID string } }](t, a, http.StatusOK, http.MethodGet, "/api/v1"+h+"/diagnostics", nil).Items[0].ID
	second, third := a.hostByName(t, "host-2"), a.hostByName(t, "host-3")
	a.addBMC(t, second.ID, mockbmc.Honest)
	a.addBMC(t, third.ID, mockbmc.Forgets)
	adopted := string(requestJSON[fleet.NetworkView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/hosts/"+string(second.ID)+"/discovered-networks/factory/adopt", nil).ID)
	cluster := "/clusters/" + a.createCluster(t)
	office := "/api/v1/networks/" + string(lan.ID)
	requestJSON[any](t, a, http.StatusAccepted, http.MethodPut, office+"/port-groups/printers", map[string]any{"toGuest": map[string]int{"averageKiB": 1024, "peakKiB": 4096}, "restricted": true})
	requestJSON[any](t, a, http.StatusNoContent, http.MethodPut, office+"/port-groups/printers/grants/"+shop, nil)
	requestJSON[any](t, a, http.StatusOK, http.MethodPut, "/api/v1"+local+"/selector", map[string]any{"selector": "rack=r1"})
	san, ceph := a.createBlockPools(t)
	firstBoot, spec := createFirstBootVM(t, a)
	web := "/security-groups/" + string(createGroupWithRules(t, a, running).ID)
	image := listFirstPage[fleet.ImageView](t, a, "/api/v1/images?filter=format:qcow2")[0]
	img := "/images/" + string(image.ID)
	at := url.Values{"pool": {string(image.Versions[0].Copies[0].PoolID)}, "volume": {image.Versions[0].Copies[0].Volume}, "host": {string(image.Versions[0].Copies[0].HostID)}}
	var alarm string
	eventually(t, time.Minute, "an alarm is raised", func() (bool, string) {
		all := listFirstPage[fleet.Alarm](t, a, "/api/v1/alarms?filter=state:open")
		if len(all) > 0 {
			alarm = string(all[0].ID)
		}
		return alarm != "", ""
	})
	rule := string(findByName[fleet.AlarmRuleView](t, a, "alarm-rules", "pool-full").ID)
	channels := createChannels(t, a)
	requestJSON[any](t, a, http.StatusOK, http.MethodPut, "/api/v1"+project+"/quota", map[string]any{
		"vms": map[string]int{"hard": 100, "soft": 80}, "cpus": map[string]int{"hard": 128, "soft": 32}, "memoryMiB": map[string]int{"hard": 1 << 20, "soft": 1 << 10}, "nics": map[string]int{"soft": 500},
		"pools": map[string]any{string(pool.ID): map[string]int64{"hard": 1 << 42}},
	})
	flavors := createFlavors(t, a, shop)
	asked, empty := createRequests(t, a, shop, pool.ID)
	shots := []pageShot{
		{"dashboard", "/", nil},
		{"shortcuts", "/", func(p *tab) { p.typeKeys("?"); p.waitTrue("the dialog", `document.querySelector("#shortcuts").open`) }},
		{"vms", "/vms", nil},
		{"vms-filter", "/vms?filter=state:running+label:env%3Dprod&sort=-memory", nil},
		{"vms-filter-wrong", "/vms?filter=state:flying", func(p *tab) { p.allowFaults("422") }},
		{"vms-nothing", "/vms?filter=name:nothing-like-it", nil},
		{"vms-found", "/vms?tab=found", nil},
		{"vms-attention", "/vms?tab=attention", nil},
		{"vms-selected", "/vms", func(p *tab) { p.click("tbody input[data-select-row]", "") }},
		{"vms-page", "/vms?limit=10", func(p *tab) { p.click(".pager a", "Next"); p.waitText(".pager", "Previous"); p.waitSettled() }},
		{"vms-columns", "/vms?columns=state,host,created,id", nil},
		{"vms-views", "/views/vms?filter=state:running&sort=-memory", func(p *tab) {
			p.fillInput("#view-name", "Running by memory")
			p.click("#view-save", "Save")
			p.waitText(".kept", "Running by memory")
		}},
		{"task-of-many", "/vms?limit=40", func(p *tab) {
			p.click("input[data-select-all]", "")
			p.pickMenuItem(".bulk summary", "Power", "Reboot")
			p.click("#dialog button.primary", "Reboot ")
			p.waitPath("/tasks/")
			p.waitText("#step-rows", "Only a running VM can be rebooted.")
			p.waitText("#task-sum header", "done ·")
		}},
		{"tasks-of-many", "/tasks", nil},
		{"task-part", "/tasks?filter=kind:vm.reboot+target:fail-start-kiosk", func(p *tab) {
			p.click("#task-rows tbody a", "Reboot")
			p.waitText("#task-body", "The task was refused:")
		}},
		{"vms-columns-menu", "/vms", func(p *tab) { p.withMenu(".tools summary", "Columns", "Created") }},
		{"vms-views-menu", "/vms", func(p *tab) { p.withMenu(".tools summary", "Views", "Save this view as") }},
		{"account-menu", "/", func(p *tab) { p.withMenu(".top summary", "admin", "Sign out") }},
		{"vms-menu", "/vms", func(p *tab) { p.withMenu("tbody [data-menu-open]", "", "Power") }},
		{"vm-new", "/vms/new", nil},
		{"vm-new-errors", "/vms/new", func(p *tab) {
			p.allowFaults("422")
			p.fillInput("#name", "Not A Name")
			if _, err := evalJS[bool](p, `[...document.querySelectorAll("textarea")].every(e => e.style.height = "90px")`); err != nil { // a user may resize a text area
				p.Fatal(err)
			}
			p.fillInput("#spec-cpus", "0")
			p.fillInput("#spec-memoryMiB", "1")
			p.chooseOption("#spec-memoryMiB-unit", "MiB")
			p.click("footer button.primary", "Create VM")
			p.waitText(".field.bad", "Name")
		}},
		{"vm-new-parts", "/vms/new", func(p *tab) {
			p.unfoldForm()
			p.allowFaults("422")
			p.fillInput("#name", "with-parts")
			p.fillInput("#spec-cpu-sockets", "7")
			p.click("footer button.primary", "Create VM")
			p.waitText(".field.bad", "Sockets × cores × threads")
		}},
		{"vm", vm, nil},
		{"vm-actions", vm, func(p *tab) { p.withMenu(".head summary", "Actions", "Delete") }},
		{"vm-disk-menu", vm, func(p *tab) { p.withMenu("main dl summary", "", "Move to another pool") }},
		{"vm-move-disk", vm, func(p *tab) {
			p.pickMenuItem("main dl summary", "", "Move to another pool")
			p.waitText("#dialog", "Choose the pool")
		}},
		{"vm-grow-disk", vm, func(p *tab) {
			p.pickMenuItem("main dl summary", "", "Grow")
			p.waitText("#dialog", "New size")
		}},
		{"vm-guest-menu", vm, func(p *tab) { p.withMenu("main .card header summary", "", "Trim file systems") }},
		{"vm-freeze", vm + "/guest/freeze", nil},
		{"vm-guest-password", vm + "/guest/guestpassword", nil},
		{"vm-guard", vm + "/protection", nil},
		{"vm-leave", "/vms/" + string(failed.ID) + "/migrate", nil},
		{"vm-disk-image", "/vms/" + string(failed.ID), func(p *tab) {
			p.pickMenuItem("main dl summary", "", "Create image")
			p.waitText("#dialog", "Name")
		}},
		{"vm-failed", "/vms/" + string(failed.ID), func(p *tab) { p.waitText("main .note", "Start failed") }},
		{"vm-monitor", vm + "?tab=monitor", waitCharts("Disk throughput")},
		{"vm-configure", vm + "?tab=configure", nil},
		{"vm-configure-disks", vm + "?tab=configure", func(p *tab) { p.openRows("spec-disks") }},
		{"vm-configure-cards", vm + "?tab=configure", func(p *tab) { p.openRows("spec-nics") }},
		{"vm-configure-parts", vm + "?tab=configure", func(p *tab) { p.unfoldForm() }},
		{"vm-events", vm + "?tab=events", nil},
		{"vm-menu", vm, func(p *tab) { p.withMenu(".head summary", "Actions", "Power") }},
		{"vm-menu-power", vm, func(p *tab) {
			p.menu = func() {
				p.Helper()
				p.click(".head summary", "Actions")
				p.click("details.menu[open] summary.menu-item", "Power")
				p.waitText("details.sub[open]", "Force off")
			}
		}},
		{"vm-force-off", vm, func(p *tab) {
			p.pickMenuItem(".head summary", "Actions", "Force off")
			p.waitText("dialog[open]", "Force off web-01?")
		}},
		{"vms-delete", "/vms", func(p *tab) {
			p.click("tbody input[data-select-row]", "")
			p.click(".bulk button", "Delete")
			p.waitText("#dialog", "Delete 1 VM?")
		}},
		{"vm-delete-page", vm + "/delete", nil},
		{"vm-delete", vm, func(p *tab) {
			p.pickMenuItem(".head summary", "Actions", "Delete")
			p.waitText("#dialog", "web-01")
		}},
		{"found-vm", "/vms?tab=found", func(p *tab) { p.click("#found-rows a", "legacy-erp"); p.waitText("h1", "legacy-erp"); p.waitSettled() }},
		{"found-vms-adopt", "/vms?tab=found", func(p *tab) {
			p.click("#found-rows input[data-select-row]", "")
			p.click(".bulk button", "Adopt")
			p.waitText("#dialog", "Adopt 1 VM?")
		}},
		{"found-vms-power", "/vms?tab=found", func(p *tab) {
			p.click("#found-rows input[data-select-row]", "")
			p.click(".bulk summary", "Power")
			p.waitText(".bulk .menu-list", "Reset")
		}},
		{"found-vms-reset", "/vms?tab=found", func(p *tab) {
			p.click("#found-rows input[data-select-row]", "")
			p.click(".bulk summary", "Power")
			p.click(".bulk .menu-list button", "Reset")
			p.waitText("#dialog", "Reset 1 VM?")
		}},
		{"vms-release", "/vms", func(p *tab) {
			p.click("tbody input[data-select-row]", "")
			p.click(".bulk button", "Release")
			p.waitText("#dialog", "Release 1 VM?")
		}},
		{"vm-adopted", "/vms/" + a.adoptVM(t, host, "old-mail", shop), nil},
		{"found-vm-adopt", "/vms?tab=found", func(p *tab) {
			p.click("#found-rows a", "legacy-erp")
			p.waitText("h1", "legacy-erp")
			p.click(".head button, .head a", "Adopt")
			p.waitText("#dialog", "Adopt legacy-erp?")
		}},
		{"vm-release", vm + "/release", nil},
		{"found-vm-console", "/vms?tab=found", func(p *tab) {
			p.click("#found-rows a", "legacy-erp")
			p.waitText("h1", "legacy-erp")
			p.click(".tabs a", "Console")
			p.waitConsole()
		}},
		{"search", "/search?q=web", nil},
		{"search-help", "/search?q=snapshot+schedule", nil},
		{"help", "/help", nil},
		{"help-chapter", "/help/storage", nil},
		{"help-search", "/help?q=add+a+host", nil},
		{"search-suggest", "/", func(p *tab) { p.fillInput("#search", "web"); p.waitText("#search-results", "web-01") }},
		{"hosts", "/hosts", nil},
		{"host-upgrade-none", "/hosts/upgrade", nil},
		{"host-join", "/hosts/join", func(p *tab) { p.click("main button.primary", ""); p.waitText(".code", "quantix agent join") }},
		{"host", h, nil},
		{"host-topology", h + "?tab=topology", nil},
		{"hosts-monitor", "/hosts/monitor", waitCharts("Memory")},
		{"hosts-hour", "/hosts?columns=state,vms,cpu1h,memory1h,seen", func(p *tab) { p.waitTrue("sparklines", `!!document.querySelector("svg.spark path")`) }},
		{"vms-hour", "/vms?columns=state,host,cpus,cpu1h,memory,memory1h", nil},
		{"host-health", h + "?tab=health", func(p *tab) { p.waitText("#checks", "Hypervisor") }},
		{"host-monitor", h + "?tab=monitor", waitCharts("Memory")},
		{"host-maintenance", h + "/maintenance", nil},
		{"host-leave-maintenance", h + "/leave-maintenance", nil},
		{"host-reboot", h + "/reboot", nil},
		{"host-shutdown", h + "/shutdown", nil},
		{"host-diagnostics", h + "?tab=diagnostics", nil},
		{"host-diagnostics-none", "/hosts/" + string(second.ID) + "?tab=diagnostics", nil},
		{"host-diagnostics-run", h + "/diagnostics", nil},
		{"host-diagnostic-item", h + "/diagnostics/" + archive + "/agent", nil},
		{"host-agent-log", h + "?tab=agent-log", nil},
		{"host-restart-agent", h + "/restart-agent", nil},
		{"host-bmc", "/hosts/" + string(second.ID), func(p *tab) { p.waitText("#bmc", "Dell Inc. PowerEdge R650") }},
		{"host-bmc-edit", "/hosts/" + string(second.ID) + "/bmc", nil},
		{"host-bmc-new", h + "/bmc", nil},
		{"host-bmc-menu", "/hosts/" + string(second.ID), func(p *tab) { p.withMenu(".head summary", "Actions", "Power through BMC") }},
		{"host-power-off", "/hosts/" + string(second.ID) + "/power-off", nil},
		{"host-power-on", "/hosts/" + string(second.ID) + "/power-on", nil},
		{"host-reset", "/hosts/" + string(second.ID) + "/reset", nil},
		{"host-bmc-error", "/hosts/" + string(third.ID), func(p *tab) { p.waitText("#bmc", "could not be read") }},
		{"host-terminate", "/hosts/" + string(second.ID) + "/terminate", nil},
		{"host-terminate-refused", h + "/terminate", nil},
		{"host-menu", "/hosts", func(p *tab) { p.withMenu("tbody [data-menu-open]", "", "Enter maintenance") }},
		{"host-discovered-pools", h + "?tab=storage", nil},
		{"host-discovered-networks", h + "?tab=networks", nil},
		{"host-adopt-pool", h + "/discovered-pools/default/adopt", nil},
		{"host-adopt-pool-refused", h + "/discovered-pools/tank/adopt", nil},
		{"host-adopt-network", h + "/discovered-networks/default/adopt", nil},
		{"network-adopted", "/networks/" + adopted, nil},
		{"network-adopted-summary", "/networks/" + adopted + "?tab=summary", nil},
		{"network-adopted-release", "/networks/" + adopted + "/hosts/" + string(second.ID) + "/release", nil},
		{"network-adopted-delete", "/networks/" + adopted + "/delete", nil},
		{"host-delete", h + "/delete", nil},
		{"alarms", "/alarms", func(p *tab) { p.waitText("#alarm-groups", "Since") }},
		{"alarms-all", "/alarms?tab=all", nil},
		{"alarm", "/alarms/" + alarm, nil},
		{"alarm-acknowledge", "/alarms/acknowledge?id=" + alarm, nil},
		{"alarm-silence", "/alarms/silence?id=" + alarm, nil},
		{"policies", "/policies", nil},
		{"policy-new", "/policies/new", nil},
		{"policy", "/policies/" + string(a.policyByName(t, "gpu-failed").ID), nil},
		{"policy-settings", "/policies/settings", nil},
		{"policy-delete", "/policies/" + string(a.policyByName(t, "gpu-failed").ID) + "/delete", nil},
		{"alarm-rules", "/alarm-rules", nil},
		{"alarm-rule-new", "/alarm-rules/new", nil},
		{"alarm-rule", "/alarm-rules/" + rule, nil},
		{"alarm-rule-delete", "/alarm-rules/" + rule + "/delete", nil},
		{"channels", "/channels", nil},
		{"channel-new", "/channels/new", nil},
		{"channel-new-alertmanager", "/channels/new", func(p *tab) { p.chooseOption("#kind", "Prometheus Alertmanager") }},
		{"channel-new-refused", "/channels/new", func(p *tab) {
			p.allowFaults("422")
			p.click("#channel-form button", "Create channel")
			p.waitText("#channel-form", "Enter the complete address")
		}},
		{"channel", "/channels/" + channels[0], func(p *tab) { p.waitText("#channel-deliveries", "Failed") }},
		{"channel-delete", "/channels/" + channels[0] + "/delete", nil},
		{"recycle-bin", "/recycle-bin", nil},
		{"project-recycle-bin", project + "/recycle-bin", nil},
		{"vm-renew", anyVMPath(t, a) + "/renew", nil},
		{"recycle-bin-settings", "/recycle-bin/settings", nil},
		{"recycled", recycledVM(t, a), nil},
		{"recycled-restore", recycledVM(t, a) + "/restore", nil},
		{"recycled-purge", recycledVM(t, a) + "/purge", nil},
		{"vm-delete", anyVMPath(t, a) + "/delete", func(p *tab) { p.click("label", "Delete disks") }},
		{"flavors", "/flavors", nil},
		{"flavor-new", "/flavors/new", nil},
		{"flavor-new-refused", "/flavors/new", func(p *tab) {
			p.allowFaults("422")
			p.click("#flavor-form button", "Create flavor")
			p.waitText("#flavor-form", "Enter a name")
		}},
		{"flavor", "/flavors/" + flavors[0], nil},
		{"flavor-unpublished", "/flavors/" + flavors[2], nil},
		{"flavor-delete", "/flavors/" + flavors[0] + "/delete", nil},
		{"project-rules", project + "/rules", nil},
		{"project-rules-refused", project + "/rules", func(p *tab) {
			p.allowFaults("422")
			p.fillInput("#namePattern", "Web_*")
			p.click("#rules-form input[type=checkbox]", "")
			p.click("#lock-pool", "")
			p.click("#rules-form footer button", "Save")
			p.waitText("#rules-form", "A pattern has")
		}},
		{"vm-new-flavor", "/vms/new", func(p *tab) {
			p.chooseOption("#flavorId", "medium")
			p.waitText("#vm-form", "Set by the flavor.")
		}},
		{"clusters", "/clusters", nil},
		{"cluster", cluster, nil},
		{"cluster-default", "/clusters/" + string(fleet.DefaultClusterID), nil},
		{"cluster-monitor", "/clusters/" + string(fleet.DefaultClusterID) + "?tab=monitor", waitCharts("Memory")},
		{"cluster-hosts", cluster + "?tab=hosts", nil},
		{"cluster-vms", "/clusters/" + string(fleet.DefaultClusterID) + "?tab=vms", nil},
		{"cluster-configure", cluster + "?tab=configure", nil},
		{"cluster-add-hosts", cluster + "/hosts", nil},
		{"cluster-add-hosts-refused", cluster + "?tab=hosts", func(p *tab) {
			p.allowFaults("422")
			p.click("#cluster-body a", "Add hosts")
			p.waitText("#dialog", "Add hosts to")
			p.click("#dialog button.primary", "Add hosts")
			p.waitText("#dialog", "Choose at least one host.")
		}},
		{"cluster-new", "/clusters/new", nil},
		{"cluster-delete", cluster + "/delete", nil},
		{"tree-clusters", "/clusters?tree=hosts", func(p *tab) { p.withTree("rack-2") }},
		{"pools", "/pools", nil},
		{"pools-matrix", "/pools/matrix", nil},
		{"pool", pl, nil},
		{"pool-volumes", pl + "?tab=volumes", nil},
		{"pool-monitor", pl + "?tab=monitor", waitCharts("Space")},
		{"pool-orphans", pl + "?tab=volumes&only=orphans", nil},
		{"pool-volume-menu", pl + "?tab=volumes", func(p *tab) { p.withMenu("tbody details summary", "", "Delete volume") }},
		{"volume-new", pl + "/volumes/new", nil},
		{"volume-fetch", pl + "/volumes/fetch", nil},
		{"volume-upload", pl + "/volumes/upload", nil},
		{"volume-fetch-start", "/pools/" + string(a.poolByName(t, "local-nvme").ID) + "/volumes/fetch?start=00000000-0000-7000-8000-000000440001", nil},
		{"volume-new-local", "/pools/" + string(a.poolByName(t, "local-nvme").ID) + "/volumes/new", nil},
		{"volume-new-errors", pl + "?tab=volumes", func(p *tab) {
			p.allowFaults("422")
			p.click("#pool-body a", "New volume")
			p.waitText("#dialog", "New volume in shared")
			p.fillInput("#dialog #name", "a/b")
			p.fillInput("#dialog #size", "1")
			p.click("#dialog button.primary", "Create volume")
			p.waitText("#dialog .field.bad", "Name")
		}},
		{"volume-grow", pl + "/volumes/grow" + of, nil},
		{"volume-rename", pl + "/volumes/rename" + of, nil},
		{"volume-clone", pl + "/volumes/clone" + of, nil},
		{"volume-wipe", pl + "/volumes/wipe" + of, nil},
		{"volume-delete", pl + "/volumes/delete" + of, nil},
		{"volume-published", pl + "/volumes/delete?volume=debian-12.qcow2", nil},
		{"pool-failed", "/pools/" + string(broken.ID), nil},
		{"pool-assign", "/pools/" + string(a.poolByName(t, "local-nvme").ID) + "/assign", nil},
		{"pool-by-label", local + "?tab=configure", nil},
		{"pool-labels-page", local + "/labels", nil},
		{"pool-labels", local + "?tab=configure", func(p *tab) {
			p.click("#by-label a", "Edit")
			p.waitText("#dialog", "Also on hosts with the labels")
			p.fillInput("#dialog #selector", "rack=r1, ssd")
			p.waitText("#dialog #labelled-hosts", "No host has all of these labels now.")
			p.fillInput("#dialog #selector", "rack=r1")
			p.waitText("#dialog #labelled-hosts", "2 hosts match")
		}},
		{"pool-labels-wrong", local + "?tab=configure", func(p *tab) {
			p.allowFaults("422")
			p.click("#by-label a", "Edit")
			p.waitText("#dialog", "Also on hosts with the labels")
			p.fillInput("#dialog #selector", "Rack=r1")
			p.click("#dialog button.primary", "Save")
			p.waitText("#dialog .field.bad", "Label key")
		}},
		{"pool-assigned", pl + "/assign", nil},
		{"pool-release", pl + "/hosts/" + string(host.ID) + "/release", nil},
		{"pool-delete", pl + "/delete", nil},
		{"pool-grants", pl + "?tab=grants", nil},
		{"pool-new", "/pools/new", nil},
		{"pool-new-publish", "/pools/new", func(p *tab) { p.chooseOption("#publish", "Some projects") }},
		{"pool-new-errors", "/pools/new", func(p *tab) {
			p.allowFaults("422")
			p.click("button.primary", "Create pool")
			p.waitText(".field.bad", "Name")
		}},
		{"pool-new-iscsi", "/pools/new", func(p *tab) {
			p.click("input[name=kind][value=iscsi-direct]", "")
			p.fillInput("#source-portal-", "10.0.0.5")
			p.fillInput("#source-target-", "iqn.2026-01.org.example:vms")
			p.fillInput("#source-initiator-", "iqn.2026-01.org.example:quantix")
			p.fillInput("#source-user-", "quantix")
			p.fillInput("#secret", "not-shown-anywhere")
		}},
		{"pool-new-rbd", "/pools/new", func(p *tab) {
			p.allowFaults("422")
			p.click("input[name=kind][value=rbd]", "")
			p.fillInput("#name", "ceph-2")
			p.fillInput("#source-monitors-", "10.0.0.1, 10.0.0.2")
			p.fillInput("#source-cephPool-", "vms")
			p.fillInput("#source-user-", "libvirt")
			p.fillInput("#secret", "no key")
			p.click("footer button.primary", "Create pool")
			p.waitText(".field.bad", "This is not a Ceph key:")
		}},
		{"pool-iscsi", "/pools/" + string(san), nil},
		{"pool-iscsi-luns", "/pools/" + string(san) + "?tab=volumes", nil},
		{"pool-credentials", "/pools/" + string(san) + "/credentials", nil},
		{"pool-rbd-failed", "/pools/" + string(ceph), nil},
		{"vm-new-lun", "/vms/new", func(p *tab) {
			p.chooseOption("[name='spec.disks[0].source']", "Existing volume")
			p.click("#spec-disks-0--Options > summary", "Options")
			p.waitTrue("the LUNs are shown", `document.querySelector("[name='spec.disks[0].lun']").checkVisibility()`)
		}},
		{"pool-new-device", "/pools/new", func(p *tab) {
			p.click(`input[name=kind][value=fs]`, "")
			p.waitSettled()
		}},
		{"networks", "/networks", nil},
		{"vm-first-boot", firstBoot + "/first-boot", nil},
		{"vm-first-boot-set", firstBoot, nil},
		{"customizations", "/customizations", nil},
		{"vm-new-first-boot", "/vms/new", func(p *tab) {
			p.click("#vm-first-boot summary", "First boot")
			p.chooseOption("[name='firstBoot.kind']", "cloud-init")
			p.waitTrue("its fields are shown", `document.querySelector("[name='firstBoot.cloudInit.hostname']").checkVisibility()`)
		}},
		{"vm-new-first-boot-wrong", "/vms/new", func(p *tab) {
			p.allowFaults("422")
			p.fillInput("#name", "told-wrong")
			p.click("#vm-first-boot summary", "First boot")
			p.chooseOption("[name='firstBoot.kind']", "cloud-init user-data")
			p.fillInput("[name='firstBoot.userData']", "#cloud-config\npackages: 3\n")
			p.click("footer button.primary", "Create VM")
			p.waitText("#vm-first-boot .field.bad", "Line 2")
		}},
		{"customization-new", "/customizations/new", nil},
		{"customization", spec, nil},
		{"customization-delete", spec + "/delete", nil},
		{"security-groups", "/security-groups", nil},
		{"security-group", web, nil},
		{"security-group-nics", web + "?tab=nics", nil},
		{"security-group-hosts", web + "?tab=hosts", nil},
		{"security-group-new", "/security-groups/new", nil},
		{"security-group-wrong-rule", web, func(p *tab) {
			p.allowFaults("422")
			p.fillInput("#rules #ports", "http")
			p.click("#rules button.primary", "Allow")
			p.waitText("#rules .field.bad", "Port")
		}},
		{"security-group-edit", web + "/edit", nil},
		{"security-group-delete", web + "/delete", nil},
		{"would-it-pass", "/security-groups/test?from=192.0.2.7&to=web-01&protocol=tcp&port=443", nil},
		{"would-it-pass-not", "/security-groups/test?from=web-02&to=web-01&protocol=tcp&port=22", nil},
		{"would-it-pass-wrong", "/security-groups/test?from=nowhere&to=web-01&protocol=tcp&port=x", func(p *tab) { p.allowFaults("422") }},
		{"vm-filters", vm + "/filters?mac=" + running.Spec.NICs[0].MAC, nil},
		{"network", "/networks/" + string(net.ID), nil},
		{"network-defined", "/networks/" + string(lan.ID), nil},
		{"network-failed", "/networks/" + string(down.ID), nil},
		{"network-topology", "/networks/" + string(net.ID) + "?tab=topology", nil},
		{"network-topology-failed", "/networks/" + string(down.ID) + "?tab=topology", nil},
		{"networks-topology", "/networks/topology", nil},
		{"network-summary", "/networks/" + string(lan.ID) + "?tab=summary", nil},
		{"network-vxlan", "/networks/" + string(over.ID), nil},
		{"network-vxlan-summary", "/networks/" + string(over.ID) + "?tab=summary", nil},
		{"network-new-vxlan", "/networks/new", func(p *tab) { p.click("#network-form label", "VXLAN overlay") }},
		{"network-new-uplink", "/networks/new", func(p *tab) { p.click("#network-form label", "Bridge on a device") }},
		{"network-addresses", "/networks/" + string(lan.ID) + "?tab=addresses", nil},
		{"network-reserve", "/networks/" + string(lan.ID) + "/reservations", nil},
		{"network-groups", "/networks/" + string(lan.ID) + "?tab=groups", nil},
		{"network-group-new", "/networks/" + string(lan.ID) + "/port-groups", nil},
		{"network-assign", "/networks/" + string(down.ID) + "/assign", nil},
		{"network-labels", "/networks/" + string(lan.ID) + "/labels", func(p *tab) {
			p.fillInput("#selector", "rack=r1")
			p.waitText("#labelled-hosts", "match")
		}},
		{"network-release", "/networks/" + string(lan.ID) + "/hosts/" + string(host.ID) + "/release", nil},
		{"network-delete", "/networks/" + string(lan.ID) + "/delete", nil},
		{"network-new", "/networks/new", nil},
		{"network-new-errors", "/networks/new", func(p *tab) {
			p.allowFaults("422")
			p.click("button.primary", "Create network")
			p.waitText(".field.bad", "Name")
		}},
		{"network-grants", "/networks?filter=kind:bridge", func(p *tab) {
			p.click("#network-rows tbody a[href^='/networks/']", "")
			p.waitPath("/networks/")
			p.click(".tabs a", "Published to")
			p.waitText("#grants h2", "Publish")
			p.waitSettled()
		}},
		{"images", "/images", nil},
		{"image", img, nil},
		{"image-grants", img + "?tab=grants", nil},
		{"image-new", "/images/new?start=00000000-0000-7000-8000-000000440001", nil},
		{"images-well-known", "/images/well-known", nil},
		{"images-well-known-new", "/images/well-known/new", nil},
		{"images-well-known-edit", "/images/well-known/00000000-0000-7000-8000-000000440001/edit", nil},
		{"images-well-known-delete", "/images/well-known/00000000-0000-7000-8000-000000440001/delete", nil},
		{"image-new-errors", "/images/new", func(p *tab) {
			p.allowFaults("422")
			p.click("button.primary", "Add image")
			p.waitText(".field.bad", "Address")
		}},
		{"image-version", img + "/versions/new", nil},
		{"image-copy", img + "/copies/new", nil},
		{"image-copy-delete", img + "/copies/delete?" + at.Encode(), nil},
		{"image-edit", img + "/edit", nil},
		{"image-delete", img + "/delete", nil},
		{"vm-new-from-image", "/vms/new", func(p *tab) {
			p.chooseOption(`select[name="spec.disks[0].source"]`, "Overlay")
			p.waitSettled()
		}},
		{"projects", "/projects", nil},
		{"project", project, nil},
		{"project-menu", "/vms", func(p *tab) { p.withMenu(".top summary", "All projects", "shop") }},
		{"project-switch", "/projects/switch?back=%2Fvms&project=" + shop, nil},
		{"project-new", "/projects/new", nil},
		{"project-edit", project + "/edit", nil},
		{"project-usage", project + "/usage", nil},
		{"project-quota", project + "/quota", nil},
		{"requests", "/requests", nil},
		{"requests-none", "/requests?project=" + empty, nil},
		{"request-new", "/requests/new?kind=quota&project=" + shop, nil},
		{"request-new-pool", "/requests/new?kind=pool&project=" + shop, nil},
		{"request-decide-quota", "/requests/" + asked[0] + "/decide", nil},
		{"request-decide-pool", "/requests/" + asked[1] + "/decide", nil},
		{"request-decide-vm", "/requests/" + asked[2] + "/decide", nil},
		{"request", "/requests/" + asked[2], nil},
		{"request-decided", "/requests/" + asked[3], nil},
		{"project-delete", project + "/delete", nil},
		{"users", "/users", nil},
		{"user-new", "/users/new", nil},
		{"user", u, nil},
		{"user-password", u + "/password", nil},
		{"user-delete", u + "/delete", nil},
		{"account", "/account", nil},
		{"tokens", "/account/tokens", nil},
		{"token-delete", "/account/tokens", func(p *tab) {
			p.open(p.linkTarget("main a[href$='/delete']"))
			p.waitSettled()
		}},
		{"password", "/account/password", nil},
		{"tasks", "/tasks", nil},
		{"task", "/tasks", func(p *tab) { p.click("main tbody a[href^='/tasks/']", ""); p.waitPath("/tasks/"); p.waitSettled() }},
		{"tree-vms", "/?tree=vms", func(p *tab) { p.withTree("shop") }},
		{"tree", "/tree/hosts", nil},
		{"not-found", "/vms/00000000-0000-7000-8000-000000000000", func(p *tab) { p.allowFaults("404") }},
	}
	return slices.Concat(shots, consoleShots(vm), templateShots(a.createTemplate(t)), planShots(t, a, vm, string(running.ID), string(failed.ID)),
		snapshotShots(t, a, findByName[fleet.VMView](t, a, "vms", "web-02"), running, failed), deviceShots(t, a, shop, host.ID), guestShots(t, a, shop), applianceShots(t, a, vm, shop, pool.ID, of))
}
