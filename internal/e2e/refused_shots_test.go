//go:build linux

package e2e

import (
	"context"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"quantix/internal/fleet"
)

// checkRefusedDialog checks how a dialog shows an error of its action. The error must be visible above the dialog,
// announced and closable, although everything around the dialog is inert.
func checkRefusedDialog(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	leaver := requestJSON[fleet.User](t, s.api(), http.StatusCreated, http.MethodPost, "/api/v1/users", map[string]any{"name": uniqueName("leaver"), "role": "viewer"})
	p := newTab(t, s.URL)
	p.signIn(s)
	p.open("/users/" + string(leaver.ID))
	p.pickMenuItem(".head summary", "Actions", "Delete user")
	p.waitText("#dialog", "Delete "+leaver.Name)
	requestJSON[struct{}](t, s.api(), http.StatusNoContent, http.MethodDelete, "/api/v1/users/"+string(leaver.ID), nil)
	p.allowFaults("404")
	p.click("#dialog button.danger", "Delete user")
	const gone = "There is no such user."
	p.waitText(".toast.bad", gone)
	p.waitAnnounced(gone)
	p.capture("dialog-refused")
	p.click(".toast.bad [data-close-toast]", "")
	p.waitNoText(".toasts", gone)
	p.waitText("#dialog", "Delete "+leaver.Name)
	p.click("#dialog [data-close]", "Cancel")
	p.waitTrue("the toasts to be the page's again", `document.querySelector("#toasts").parentElement === document.body`)
}

// waitAnnounced waits until a screen reader would announce the text, which must be in an exposed live region.
func (p *tab) waitAnnounced(text string) {
	p.Helper()
	eventually(p, stepLimit, "the announcement of "+text, func() (ok bool, why string) {
		p.runActions("read the page's accessibility tree", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			tree, err := cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
			if err != nil {
				return err
			}
			above := map[accessibility.NodeID]*accessibility.Node{}
			for _, n := range tree.Nodes {
				for _, child := range n.ChildIDs {
					above[child] = n
				}
			}
			is := func(v *accessibility.Value, text string) bool { return v != nil && string(v.Value) == jsString(text) }
			why = "no node has the text"
			for _, n := range tree.Nodes {
				if n.Ignored || !is(n.Role, "StaticText") || !is(n.Name, text) {
					continue
				}
				why = "the text is in no live region"
				for n = above[n.NodeID]; n != nil && !ok; n = above[n.NodeID] {
					ok = !n.Ignored && is(n.Role, "status")
				}
			}
			return nil
		}))
		return ok, why
	})
}
