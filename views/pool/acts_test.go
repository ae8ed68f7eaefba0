package pool

import (
	"html"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
	"quantix/views/kit"
)

func TestPoolActionWithoutPermissionHasReason(t *testing.T) {
	t.Parallel()
	viewer, admin := fleet.Actor{UserID: "vic", Role: fleet.RoleViewer}, fleet.Actor{UserID: "ann", Role: fleet.RoleAdmin}
	gone := time.Now()
	for name, c := range map[string]struct {
		act  kit.ActionButton
		want string // reason; empty: the action is enabled
	}{
		"without permission": {Actions(viewer, fleet.PoolView{})[4], "Ask an administrator."},
		"with permission":    {Actions(admin, fleet.PoolView{})[4], ""},
		"being deleted":      {Actions(admin, fleet.PoolView{Pool: fleet.Pool{DeletedAt: &gone}})[4], "The pool is being deleted"},
		"first reason stays": {kit.ActionButton{Icon: "plug", Why: "First."}.DisableFor("Second.").RequirePermission(viewer, "anything"), "First."},
	} {
		menu, button := rendered.HTML(t, kit.MenuItems([]kit.ActionButton{c.act})), rendered.HTML(t, kit.StandaloneButton("x", "", c.act))
		for where, text := range map[string]string{"menu": menu, "button": button} {
			usable := strings.Contains(text, "href=\"/pools/")
			if disabled := strings.Contains(text, `aria-disabled="true"`); disabled == usable || usable != (c.want == "") || !strings.Contains(text, html.EscapeString(c.want)) {
				t.Errorf("%s, %s: %s", name, where, text)
			}
		}
	}
}
