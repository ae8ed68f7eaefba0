//go:build linux && ordeal

package e2e

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"quantix/internal/fleet"
)

// exportAndImport exports the VM as an OVA archive, downloads it in the browser, uploads it into the pool and imports
// it as another VM. The new guest must have the same data.
func (l *guestLife) exportAndImport(to string) {
	l.Helper()
	l.console.runCommand("sync") // the next step forces the guest off, which may lose data that is not synced
	l.forceOff()
	l.pickMenuItem(".head summary", "Actions", "Export")
	l.waitPath("/vms/" + string(l.id) + "/export")
	l.chooseOption("[name=what]", "OVA archive")
	l.click("#vm-export button.primary", "Export")
	l.waitWithin(guestLimit, "#export-files", "Ready")
	file := l.download("#export-files a", "Download")
	var members []string
	for name := range tarMembers(l, file) {
		members = append(members, filepath.Ext(name))
	}
	if len(members) < 3 || members[0] != ".ovf" {
		l.Errorf("the archive holds %q", members)
	}
	sent := filepath.Join(filepath.Dir(file), "crossed.ova")
	if err := os.Rename(file, sent); err != nil {
		l.Fatal(err)
	}

	l.open("/vms")
	l.click("a", "Import")
	l.waitPath("/vms/import")
	l.click("main a.btn", "Upload into cloud")
	l.waitText("#dialog", "Upload into cloud")
	l.chooseFile("#dialog #upload-file", sent)
	l.waitTrue("the name to be filled in", `document.querySelector("#dialog #name").value === "crossed.ova"`)
	l.chooseOption("#dialog #host", l.r.name)
	l.click("#dialog button.primary", "Upload")
	l.waitWithin(guestLimit, ".toast", "crossed.ova is uploaded.")
	l.waitWithin(guestLimit, "#import-files", "crossed.ova")
	l.savePicture("readme-import")
	href := l.linkTarget("#import-files a[aria-label='Import crossed.ova']")
	l.open(href)
	l.waitText("h1", "Import crossed.ova")
	twin := &guestLife{tab: l.tab, r: l.r, a: l.a, name: to}
	l.fillInput("#name", to)
	l.chooseOption("#projectId", "cloud")
	l.click("#vm-first-boot > summary", "First boot")
	l.chooseOption("[name='firstBoot.kind']", "cloud-init")
	l.createGuest(twin)
	if got := twin.console.runCommand("cat /etc/heirloom; hostname"); got != "inherited\n"+to {
		l.Errorf("the imported guest has %q", got)
	}
	was, is := l.a.getVM(l.T, l.id), l.a.getVM(l.T, twin.id)
	if is.Spec.CPUs != was.Spec.CPUs || is.Spec.MemoryMiB != was.Spec.MemoryMiB || is.Spec.Firmware != was.Spec.Firmware || len(is.Spec.Disks) != len(was.Spec.Disks) || len(is.Spec.NICs) != len(was.Spec.NICs) {
		l.Errorf("the imported VM is %+v, the exported was %+v", is.Spec, was.Spec)
	}
	if d := is.Status.Disks[0]; !strings.Contains(d.Path, to) && d.Path == was.Status.Disks[0].Path {
		l.Errorf("both have the disk %s", d.Path)
	}
}

// forceOff forces the VM off by the menu of its page, and confirms the dialog.
func (l *guestLife) forceOff() {
	l.Helper()
	l.open("/vms/" + string(l.id))
	l.pickMenuItem(".head summary", "Actions", "Force off")
	l.waitText("dialog[open] h2", "Force off "+l.name+"?")
	l.typeKeys("\r")
	l.a.waitPhase(l.T, guestLimit, l.id, fleet.PhaseStopped)
	l.open("/vms/" + string(l.id))
}

// download clicks an element and returns the path of the downloaded file.
func (p *tab) download(sel, text string) string {
	p.Helper()
	dir := p.TempDir()
	p.runActions("set the download directory", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
			Behavior: "allow", DownloadPath: dir, BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID,
		})
		return err
	}))
	p.click(sel, text)
	file := ""
	eventually(p, guestLimit, "the file from the browser", func() (bool, string) {
		all, err := os.ReadDir(dir)
		if err != nil || len(all) != 1 || strings.HasSuffix(all[0].Name(), ".crdownload") {
			return false, fmt.Sprint(all, err)
		}
		file = filepath.Join(dir, all[0].Name())
		return true, ""
	})
	return file
}

// tarMembers iterates over the members of a tar archive with their sizes, in order.
func tarMembers(l *guestLife, file string) func(yield func(string, int64) bool) {
	return func(yield func(string, int64) bool) {
		f, err := os.Open(file)
		if err != nil {
			l.Fatal(err)
		}
		defer f.Close()
		for in := tar.NewReader(f); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				l.Fatal(err)
			}
			if !yield(h.Name, h.Size) {
				return
			}
		}
	}
}
