//go:build linux

package e2e

// consoleShots returns the shots of the console of a running VM. vm is the path of its page.
func consoleShots(vm string) []pageShot {
	return []pageShot{
		{"console-sessions", "/console-sessions", nil},
		{"vm-console", vm + "/console", func(p *tab) { p.waitConsole() }},
		{"vm-console-window", vm + "/console?window=1", func(p *tab) { p.waitConsole() }},
		{"vm-console-keys", vm + "/console", func(p *tab) {
			p.waitConsole()
			p.withMenu("#console .menu > summary", "Keys", "Hold Ctrl")
		}},
		{"vm-console-paste", vm + "/console", func(p *tab) {
			p.waitConsole()
			p.click("[data-console=paste]", "Paste")
			p.waitTrue("the dialog", `!!document.querySelector("#paste-text")`)
			p.chooseOption("#paste-layout", "German (no dead keys)")
			p.fillInput("#paste-text", "P@ß|{}€ and ñ")
			p.waitText("[data-untypable]", "ñ")
		}},
	}
}
