// A C++ program that contains its kernels: it needs no compiler, no cache and no network where it runs.
#include <attile.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

extern "C" const struct att_bundle window_kernels; // in kernels.c, written by `attile build`

namespace {

constexpr int Heads = 2, Length = 100, Dim = 48, Window = 10;

struct Close {
    void operator()(att_session *session) const { att_close(session); }
};
using Session = std::unique_ptr<att_session, Close>;

Session open() {
    static const att_bundle *const bundles[] = {&window_kernels, nullptr};
    att_options options{};
    options.size = sizeof options;
    options.bundles = bundles;
    options.no_disk_cache = 1;
    options.host_mode = ATT_HOST_FAST;
    att_session *session = nullptr;
    const att_status status = att_open(&options, &session);
    Session owner(session);
    if (status != ATT_OK)
        throw std::runtime_error(session ? att_message(session) : att_status_name(status));
    return owner;
}

// Floats in device memory, freed before their session.
class Tensor {
  public:
    Tensor(att_session *session, const std::vector<float> &values) : session(session), bytes(values.size() * 4) {
        if (att_alloc(session, bytes, &data) != ATT_OK || att_copy_in(session, data, values.data(), bytes) != ATT_OK)
            throw std::runtime_error(att_message(session));
    }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;
    ~Tensor() { att_free(session, data); }

    att_tensor view() const { return {data, 0, Length * Dim, Dim}; } // batch, head and row stride
    std::vector<float> values() const {
        std::vector<float> found(bytes / 4);
        if (att_copy_out(session, found.data(), data, bytes) != ATT_OK)
            throw std::runtime_error(att_message(session));
        return found;
    }

  private:
    att_session *session;
    std::size_t bytes;
    void *data = nullptr;
};

void run() {
    const Session session = open();
    att_kernel *kernel = nullptr;
    const char *problem = "family=attention_forward head_dim=48 mask='k <= q and q - k < window' params='window: int'";
    if (att_find(session.get(), problem, nullptr, &kernel) != ATT_OK)
        throw std::runtime_error(att_message(session.get()));
    att_kernel_info info{};
    info.size = sizeof info;
    att_kernel_describe(kernel, &info);

    // All keys are equal, so all visible keys have the same weight. Values are their positions, so O is the mean
    // position.
    std::vector<float> same(Heads * Length * Dim, 1.0f), position(same.size());
    for (std::size_t i = 0; i < position.size(); i++)
        position[i] = static_cast<float>(i / Dim % Length);
    const Tensor q(session.get(), same), k(session.get(), same), v(session.get(), position), o(session.get(), same);

    att_param window{};
    window.name = "window";
    window.type = ATT_PARAM_INT;
    window.number = Window;
    att_args args{};
    args.size = sizeof args;
    args.family = ATT_ATTENTION_FORWARD;
    args.attention.q = q.view();
    args.attention.k = k.view();
    args.attention.v = v.view();
    args.attention.o = o.view();
    args.attention.batch = 1;
    args.attention.heads = Heads;
    args.attention.len_q = args.attention.len_kv = Length;
    args.attention.param_count = 1;
    args.attention.params = &window;
    if (att_launch(kernel, &args, nullptr) != ATT_OK)
        throw std::runtime_error(att_message(session.get()));
    const float last = o.values().back(), expected = Length - 1 - (Window - 1) / 2.0f;
    std::printf("%s, from its %s\nmean position of the last %d keys: %g\n", att_kernel_name(kernel), info.from, Window,
                static_cast<double>(last));
    if (!(std::fabs(last - expected) < 1e-3f))
        throw std::runtime_error("that is wrong");
}

} // namespace

int main() {
    try {
        run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
