package childprocess

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"coalmine/internal/secrets"
	"coalmine/internal/tempfiles"
)

// passed lists the variables that every command gets: about the machine, the user and the settings of
// libraries. Names are compared without regard to case, as on Windows.
var passed = strings.Fields(`
	PATH HOME USER LOGNAME SHELL TERM LANG LANGUAGE TZ TMPDIR TMP TEMP
	LD_LIBRARY_PATH LD_PRELOAD DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH
	VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYENV_ROOT PYENV_VERSION
	R_HOME R_LIBS R_LIBS_USER R_LIBS_SITE JULIA_DEPOT_PATH JULIA_NUM_THREADS JAVA_HOME
	XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
	SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
	HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
	GOMAXPROCS NUMEXPR_NUM_THREADS NUMEXPR_MAX_THREADS VECLIB_MAXIMUM_THREADS BLIS_NUM_THREADS RAYON_NUM_THREADS
	MALLOC_ARENA_MAX TOKENIZERS_PARALLELISM CUBLAS_WORKSPACE_CONFIG XLA_FLAGS
	NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_TF32_OVERRIDE
	ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCM_PATH HSA_OVERRIDE_GFX_VERSION
	COALMINE_DEVICE
	TF_CPP_MIN_LOG_LEVEL TF_DETERMINISTIC_OPS TF_ENABLE_ONEDNN_OPTS TF_FORCE_GPU_ALLOW_GROWTH
	TF_NUM_INTRAOP_THREADS TF_NUM_INTEROP_THREADS TF_XLA_FLAGS
	HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE HF_DATASETS_CACHE HF_DATASETS_OFFLINE TRANSFORMERS_CACHE TRANSFORMERS_OFFLINE
	SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT OS USERNAME USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA
	PROGRAMDATA PROGRAMFILES NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE
`)

// families are prefixes of further variables that every command gets.
var families = strings.Fields("LC_ PYTHON OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ CUDA_ NCCL_ PYTORCH_ TORCH_ JAX_")

// environment returns the variables of the command. A command restricted to some directories has its
// temporary files in the first of them.
func (c *Command) environment() ([]string, error) {
	modules, err := offered.path()
	if err != nil {
		return nil, fmt.Errorf("the Python package coalmine: %w", err)
	}
	variables := slices.DeleteFunc(os.Environ(), func(variable string) bool { return !isPassed(variable, c.Environment) })
	if modules != "" {
		variables = append(variables, pythonPath+"="+joined(os.Getenv(pythonPath), modules))
	}
	if len(c.Write) > 0 {
		variables = append(variables, "TMPDIR="+c.Write[0])
	}
	return append(variables, c.Set...), nil
}

// isPassed reports whether a command gets a variable: one named in keep, or one of the lists above with a
// value that holds no password.
func isPassed(variable string, keep []string) bool {
	name, value, _ := strings.Cut(variable, "=")
	if slices.Contains(keep, name) {
		return true
	}
	name = strings.ToUpper(name)
	listed := slices.Contains(passed, name) ||
		slices.ContainsFunc(families, func(family string) bool { return strings.HasPrefix(name, family) && !soundsSecret(name) })
	return listed && !secrets.HasPassword(value)
}

// secretWords mark the names of secret variables, which a family may contain.
var secretWords = []string{"SECRET", "TOKEN", "CRED", "KEY", "PASS", "PWD", "PSWD", "AUTH", "COOKIE", "LOGIN", "CONNECTION_STRING"}

// secretSuffixes are endings of the names of secret variables.
var secretSuffixes = []string{"_PW", "_PIN", "_SAS", "_DSN", "_JWT", "_PAT", "_CERT", "_SIGNATURE"}

func soundsSecret(name string) bool {
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) }) ||
		slices.ContainsFunc(secretSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}

// threadVariables set the number of threads of libraries.
var threadVariables = []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS"}

// Threads returns variables for Command.Set that make libraries compute with n threads. Variables set for
// this process stay unchanged.
func Threads(n int) (variables []string) {
	for _, name := range threadVariables {
		if _, set := os.LookupEnv(name); !set {
			variables = append(variables, fmt.Sprintf("%s=%d", name, n))
		}
	}
	return variables
}

// pythonPath names the variable with the directories in which Python looks for modules.
const pythonPath = "PYTHONPATH"

// offered holds the modules of OfferPython.
var offered modules

// modules are Python modules, written to a directory when the first command starts.
type modules struct {
	mu        sync.Mutex
	files     fs.FS                // nil if there are none
	directory *tempfiles.Directory // nil until a command has started
}

// OfferPython makes the Python modules of files available to every command of this process. Modules
// of the same name next to the command or in PYTHONPATH take precedence. withdraw removes the
// written files; no command may run after it.
func OfferPython(files fs.FS) (withdraw func()) {
	offered.mu.Lock()
	defer offered.mu.Unlock()
	offered.files = files
	return offered.remove
}

func (m *modules) remove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.directory != nil {
		m.directory.Remove()
	}
	m.files, m.directory = nil, nil
}

// path returns the directory of the modules, "" if there are none.
func (m *modules) path() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		return "", nil
	}
	if m.directory == nil {
		directory, err := tempfiles.MakeDirectory("", "python-")
		if err != nil {
			return "", err
		}
		if err := os.CopyFS(directory.Path, m.files); err != nil {
			directory.Remove()
			return "", err
		}
		m.directory = directory
	}
	return m.directory.Path, nil
}

// joined appends a directory to a list of directories.
func joined(list, directory string) string {
	if list == "" {
		return directory
	}
	return list + string(os.PathListSeparator) + directory
}

// meaningful are the characters that have a meaning to a shell in a line.
const meaningful = ";&|<>()$`\\\"'*?[]#~=%!{}\n"

// Shell returns the arguments with which the system's shell runs a command line. A single
// program replaces the shell, so that both end together.
func Shell(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", line}
	}
	if line = strings.TrimSpace(line); line != "" && !strings.ContainsAny(line, meaningful) {
		line = "exec " + line
	}
	return []string{"sh", "-c", line}
}
