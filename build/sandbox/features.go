package sandbox

// Features are the facilities of this machine that RUN and mount use.
type Features struct {
	Kernel         string   `json:"kernel,omitempty"`
	Overlayfs      string   `json:"overlayfs"`      // yes, or why not
	UserNamespaces string   `json:"userNamespaces"` // yes, or why not
	MappedIDs      string   `json:"mappedIDs"`      // user IDs of RUN's own: yes, or why not
	LandlockABI    int      `json:"landlockABI"`    // 0 is no Landlock
	Seccomp        string   `json:"seccomp"`        // yes, or why not
	RunLacks       []string `json:"runLacks"`       // the protections that RUN would go without, each as a sentence
}
