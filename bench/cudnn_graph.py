"""cuDNN's attention through its own frontend (`pip install nvidia-cudnn-frontend`), for what PyTorch cannot request.

PyTorch expresses a causal mask between different lengths only as a tensor of booleans, which takes cuDNN twice as long
as its own causal mask with the last query and key aligned.
"""
import torch

PATH = "cudnn frontend, bottom-right causal"  # recorded in the rows that used it


def causal_attention(q, k, v, stream):
    """Returns a callable that computes and returns O. Raises ImportError if there is no frontend, else the frontend's
    exceptions."""
    import cudnn
    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=stream)
    dtype = {torch.bfloat16: cudnn.data_type.BFLOAT16, torch.float16: cudnn.data_type.HALF}[q.dtype]
    graph = cudnn.pygraph(io_data_type=dtype, intermediate_data_type=cudnn.data_type.FLOAT,
                          compute_data_type=cudnn.data_type.FLOAT, handle=handle)
    inputs = {name: graph.tensor(name=name, dim=list(tensor.shape), stride=list(tensor.stride()), data_type=dtype)
              for name, tensor in (("q", q), ("k", k), ("v", v))}
    output = graph.sdpa(name="attention", **inputs, generate_stats=False, attn_scale=q.shape[-1]**-0.5,
                        diagonal_alignment=cudnn.diagonal_alignment.BOTTOM_RIGHT, diagonal_band_right_bound=0)[0]
    o = torch.empty_like(q)
    output.set_output(True).set_dim(list(o.shape)).set_stride(list(o.stride())).set_data_type(dtype)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()
    workspace = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device=q.device)
    buffers = {inputs["q"]: q, inputs["k"]: k, inputs["v"]: v, output: o}

    def work():
        graph.execute(buffers, workspace, handle=handle)
        return o

    return work
