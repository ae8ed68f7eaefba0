package web_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

var (
	formPattern   = regexp.MustCompile(`(?s)<form[^>]*>.*?</form>`)
	buttonPattern = regexp.MustCompile(`<button[^>]*>`)
	sendsPattern  = regexp.MustCompile(`(?:name|value|formaction)="[^"]*"`)
)

// When the user presses Enter, browsers activate the first submit button of a form, even an invisible one. So the first
// button must be the primary one.
func TestEnterActivatesPrimaryButton(t *testing.T) {
	p, _, pool, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	running, stopped := "/vms/"+string(vms["web-01"]), "/vms/"+string(vms["web-02"])
	p.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'web-02.qcow2', 'sizeBytes', 1073741824))) WHERE id = $1`, vms["web-02"], pool)
	for _, path := range []string{
		"/vms", "/vms/new", stopped + "/delete", running + "/delete", stopped + "?tab=configure", running + "?tab=configure", stopped + "/snapshots/take",
		"/vms/edit?id=" + string(vms["web-01"]), "/vms/compare?id=" + string(vms["web-01"]) + "&id=" + string(vms["web-02"]), "/images/well-known", "/networks/new", "/pools/new",
	} {
		page := b.get(path).requireStatus(t, http.StatusOK)
		for _, form := range formPattern.FindAllString(page.body, -1) {
			buttons := buttonPattern.FindAllString(form, -1)
			buttons = slices.DeleteFunc(buttons, func(b string) bool { return strings.Contains(b, `type="button"`) })
			chosen := slices.IndexFunc(buttons, func(b string) bool { return strings.Contains(b, " primary") || strings.Contains(b, " danger") })
			switch {
			case len(buttons) < 2 || strings.Contains(buttons[0], " disabled"):
			case chosen < 0:
				t.Errorf("%s: Enter activates %s, but the form shows no primary button", path, buttons[0])
			default:
				enter, shown := sendsPattern.FindAllString(buttons[0], -1), sendsPattern.FindAllString(buttons[chosen], -1)
				if !slices.Equal(enter, shown) {
					t.Errorf("%s: Enter activates %s, but %s is the primary button", path, buttons[0], buttons[chosen])
				}
			}
		}
	}
}
