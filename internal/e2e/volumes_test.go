//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestVolumeLifecycle creates, grows, clones, wipes and deletes volumes on a real libvirt host, only on the pages. The
// deletion of a VM's disk must be refused.
func TestVolumeLifecycle(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	p := newTab(t, s.URL)
	p.signIn(s)
	pool, name := uniqueName("volumes"), uniqueName("owner")
	dir := filepath.Join(labDir(), "pools", pool)
	p.createPool(pool, dir)
	p.createVM(name, pool)
	id := s.api().poolByName(t, pool).ID
	file := func(name string, size int64) {
		t.Helper()
		eventually(t, stepLimit, "the file "+name, func() (bool, string) {
			info, err := os.Stat(filepath.Join(dir, name))
			if size < 0 {
				return os.IsNotExist(err), "it is there"
			}
			if err != nil {
				return false, err.Error()
			}
			return info.Size() == size, info.Name()
		})
	}
	row := func(volume string) string { return "tr:has(th[title$='/" + volume + "'])" }
	// A closing dialog returns the focus to its previous element, which would close a menu opened at that moment.
	menu := func(volume string) {
		t.Helper()
		p.waitTrue("no dialog", `document.querySelector("dialog[open]") === null`)
		p.click(row(volume)+" details:not([open]) summary", "")
		p.waitText(row(volume)+" details[open] .menu-list", "Delete volume")
	}
	// An open menu does not update its items. If the item is still disabled, close the menu and open it again. The item is
	// clicked once: a second dialog would replace the fields of the first one.
	act := func(volume, word string) {
		t.Helper()
		eventually(t, stepLimit, word+" of "+volume, func() (bool, string) {
			asked, err := evalJS[bool](p, fmt.Sprintf(`(() => {
				if (document.querySelector("dialog[open]")) {
					const shown = document.querySelector("#dialog").textContent.includes(%[2]s);
					if (shown) delete window.clickedItem;
					return shown;
				}
				if (window.clickedItem) return false;
				const menu = document.querySelector(%[1]s + " details");
				if (!menu?.open) { menu?.querySelector("summary").click(); return false; }
				const item = [...menu.querySelectorAll(".menu-item:not([aria-disabled])")].find((item) => item.textContent.trim() === %[3]s);
				if (item) { window.clickedItem = true; item.click(); } else menu.open = false;
				return false;
			})()`, jsString(row(volume)), jsString(volume), jsString(word)))
			return err == nil && asked, "no dialog"
		})
		p.waitText("#dialog", volume)
	}

	p.open("/pools/" + string(id) + "?tab=volumes")
	p.markDocument()
	p.click("#pool-body a", "New volume")
	p.waitText("#dialog", "New volume in "+pool)
	p.fillInput("#dialog #name", "data.raw")
	p.chooseOption("#dialog #format", "raw")
	p.fillInput("#dialog #size", "0.0625")
	p.click("#dialog button.primary", "Create volume")
	p.waitText(row("data.raw"), "64 MiB")
	p.waitText(row("data.raw"), "Orphan")
	file("data.raw", 64<<20)

	act("data.raw", "Grow")
	p.fillInput("#dialog #size", "128")
	p.click("#dialog button.primary", "Grow")
	p.waitText(row("data.raw"), "128 MiB")
	file("data.raw", 128<<20)

	act("data.raw", "Clone")
	p.fillInput("#dialog #name", "copy.raw")
	p.click("#dialog button.primary", "Clone")
	p.waitText(row("copy.raw"), "128 MiB")
	file("copy.raw", 128<<20)

	act("data.raw", "Wipe")
	p.fillInput("#dialog #confirm", "data.raw")
	p.click("#dialog button.danger", "Wipe")
	p.waitText("#dock", "Wipe volume")

	eventually(t, stepLimit, "the end of the wipe", func() (bool, string) {
		got, err := s.api().send(t.Context(), http.MethodGet, "/api/v1/tasks?filter=kind:volume.wipe+state:done+target:data.raw", nil)
		return err == nil && strings.Contains(string(got.body), "data.raw"), string(got.body)
	})
	act("data.raw", "Delete volume")
	p.fillInput("#dialog #confirm", "data.raw")
	p.click("#dialog button.danger", "Delete volume")
	p.waitNoText("#pool-body tbody", "data.raw")
	file("data.raw", -1)
	file("copy.raw", 128<<20)
	p.checkNotReloaded()

	vm := findByName[fleet.VMView](t, s.api(), "vms", name)
	disk := vm.Spec.Disks[0].Volume
	menu(disk)
	p.waitText(row(disk)+" .menu-item[aria-disabled]", "The volume is a disk of the VM "+name)
	got, err := s.api().send(t.Context(), http.MethodDelete, "/api/v1/pools/"+string(id)+"/volumes/"+disk+"?confirm="+disk, nil)
	if err != nil || got.status != http.StatusConflict || !strings.Contains(string(got.body), "The volume is a disk of the VM "+name) {
		t.Errorf("delete a VM's disk: %d %s %v", got.status, got.body, err)
	}
	if _, err := os.Stat(filepath.Join(dir, disk)); err != nil {
		t.Errorf("the VM's disk: %v", err)
	}
	p.open("/pools/" + string(id) + "?tab=tasks")
	p.waitText("#pool-body", "Delete volume")
}
